package dev.loopwatch.zoo;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import io.fabric8.kubernetes.client.utils.Serialization;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;

/** All faults of the operator, those that are on, and the HTTP server that switches them. */
final class Faults {

  /** A row of the table: what the fault does, and its parameters with their defaults. */
  private record Row(String effect, Map<String, Long> params) {}

  /** The one table of faults, with the names that they have in the widget-operator. */
  private static final Map<String, Row> CATALOG = new TreeMap<>(Map.of(
      "Unacknowledged", new Row("the operator ignores changes, and writes nothing", Map.of()),
      "Overdue", new Row("the operator acknowledges changes, and the object does not become ready", Map.of()),
      "ReconcileFailing",
      new Row("the first attempts to reconcile fail, or all if attempts is 0", Map.of("attempts", 0L)),
      "ReconcileStuck", new Row("a reconcile does not end", Map.of()),
      "QueueBacklog", new Row("each reconcile takes longer by a delay in milliseconds", Map.of("delay", 1000L)),
      "FinalizerStuck", new Row("the operator never removes its finalizer", Map.of()),
      "TaskLeak", new Row("each reconcile starts threads that do not end", Map.of("tasks", 1L)),
      "HeapLeak",
      new Row("the process keeps more memory, at a rate in bytes per second", Map.of("rate", 1L << 20)),
      "Crash", new Row("the process ends with an error, after a delay in milliseconds", Map.of("delay", 1000L))));

  private static final List<String> OF_PROCESS = List.of("HeapLeak", "Crash");
  private static final long TICK_MS = 100;

  /** A fault that is on, for the objects that it selects. */
  static final class Fault {
    final String name;
    final Map<String, Long> params;
    final Map<String, String> selectors = new TreeMap<>();
    final long since = System.nanoTime();

    Fault(String name, String query) {
      if (!CATALOG.containsKey(name)) {
        throw new IllegalArgumentException("no such fault: " + name);
      }
      this.name = name;
      params = new TreeMap<>(CATALOG.get(name).params());
      for (String pair : query == null ? new String[0] : query.split("&")) {
        String[] parts = pair.split("=", 2);
        String value = parts.length == 2 ? parts[1] : "";
        if (List.of("namespace", "name").contains(parts[0]) && !OF_PROCESS.contains(name)) {
          selectors.put(parts[0], value);
        } else if (params.containsKey(parts[0]) && value.matches("[0-9]{1,15}")) {
          params.put(parts[0], Long.valueOf(value));
        } else {
          throw new IllegalArgumentException(name + " takes no parameter " + pair);
        }
      }
    }

    boolean selects(Gear gear) {
      var meta = gear.getMetadata();
      return selectors.getOrDefault("namespace", meta.getNamespace()).equals(meta.getNamespace())
          && selectors.getOrDefault("name", meta.getName()).equals(meta.getName());
    }

    long ageMs() {
      return (System.nanoTime() - since) / 1_000_000;
    }

    Map<String, Object> shown() {
      Map<String, Object> shown = new LinkedHashMap<>(selectors);
      shown.put("fault", name);
      shown.put("params", params);
      return shown;
    }
  }

  private final List<Fault> active = new CopyOnWriteArrayList<>();
  private final Map<String, Long> failed = new ConcurrentHashMap<>();
  private final List<byte[]> memory = new ArrayList<>();

  Fault on(String name, Gear gear) {
    return active.stream().filter(f -> f.name.equals(name) && f.selects(gear)).findFirst().orElse(null);
  }

  /** Applies the faults to the reconcile of one object. */
  void disturb(Gear gear) throws InterruptedException {
    Fault leak = on("TaskLeak", gear);
    for (long i = 0; leak != null && i < leak.params.get("tasks"); i++) {
      Thread thread = new Thread(() -> waitWhileOn(leak), "leaked");
      thread.setDaemon(true);
      thread.start();
    }
    Fault slow = on("QueueBacklog", gear);
    if (slow != null) {
      for (long waited = 0; waited < slow.params.get("delay") && active.contains(slow); waited += TICK_MS) {
        Thread.sleep(Math.min(TICK_MS, slow.params.get("delay")));
      }
    }
    Fault stuck = on("ReconcileStuck", gear);
    if (stuck != null) {
      waitWhileOn(stuck);
    }
    Fault failing = on("ReconcileFailing", gear);
    String uid = gear.getMetadata().getUid();
    if (failing == null) {
      failed.remove(uid);
      return;
    }
    long attempts = failing.params.get("attempts");
    if (failed.merge(uid, 1L, Long::sum) <= attempts || attempts == 0) {
      throw new IllegalStateException("the backend refuses the connection");
    }
  }

  private void waitWhileOn(Fault fault) {
    while (active.contains(fault)) {
      pause();
    }
  }

  private static void pause() {
    try {
      Thread.sleep(TICK_MS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new IllegalStateException(e);
    }
  }

  /** Applies the faults of the process, again and again. */
  private void disturbProcess() {
    while (true) {
      Fault leak = active.stream().filter(f -> f.name.equals("HeapLeak")).findFirst().orElse(null);
      if (leak == null) {
        memory.clear();
      } else {
        long kept = memory.stream().mapToLong(part -> part.length).sum();
        long wanted = leak.ageMs() * leak.params.get("rate") / 1000;
        if (wanted - kept > 0) {
          byte[] part = new byte[(int) Math.min(wanted - kept, 1 << 24)];
          Arrays.fill(part, (byte) 1);
          memory.add(part);
        }
      }
      for (Fault fault : active) {
        if (fault.name.equals("Crash") && fault.ageMs() >= fault.params.get("delay")) {
          System.err.println("gear-operator: the fault Crash is on");
          Runtime.getRuntime().halt(1);
        }
      }
      pause();
    }
  }

  /**
   * Switches faults over HTTP: {@code PUT /faults/Overdue?name=one}, {@code DELETE /faults/Overdue}, {@code DELETE
   * /faults}, {@code GET /faults}, {@code GET /catalog}.
   */
  void serve(InetSocketAddress address) throws IOException {
    if (!address.getAddress().isLoopbackAddress()) {
      throw new IllegalArgumentException("--fault-listen must be a loopback address, not " + address);
    }
    HttpServer server = HttpServer.create(address, 0);
    server.createContext("/catalog", exchange -> answer(exchange, 200, CATALOG));
    server.createContext("/faults", this::switchFaults);
    server.start();
    Thread process = new Thread(this::disturbProcess, "faults");
    process.setDaemon(true);
    process.start();
  }

  private void switchFaults(HttpExchange exchange) throws IOException {
    String name = exchange.getRequestURI().getPath().replaceFirst("^/faults/?", "");
    try {
      switch (exchange.getRequestMethod()) {
        case "GET" -> {}
        case "PUT" -> {
          Fault fault = new Fault(name, exchange.getRequestURI().getQuery());
          active.removeIf(f -> f.name.equals(name) && f.selectors.equals(fault.selectors));
          active.add(fault);
        }
        case "DELETE" -> active.removeIf(f -> name.isEmpty() || f.name.equals(name));
        default -> throw new IllegalArgumentException("GET, PUT or DELETE");
      }
    } catch (IllegalArgumentException e) {
      answer(exchange, 400, Map.of("error", e.getMessage()));
      return;
    }
    answer(exchange, 200, Map.of("faults", active.stream().map(Fault::shown).toList()));
  }

  private static void answer(HttpExchange exchange, int code, Object body) throws IOException {
    byte[] text = Serialization.asJson(body).getBytes(StandardCharsets.UTF_8);
    exchange.getResponseHeaders().set("Content-Type", "application/json");
    exchange.sendResponseHeaders(code, text.length);
    exchange.getResponseBody().write(text);
    exchange.close();
  }
}
