package dev.loopwatch.zoo;

import com.sun.net.httpserver.HttpServer;
import io.javaoperatorsdk.operator.Operator;
import io.javaoperatorsdk.operator.monitoring.micrometer.MicrometerMetricsV2;
import io.micrometer.core.instrument.binder.jvm.JvmGcMetrics;
import io.micrometer.core.instrument.binder.jvm.JvmMemoryMetrics;
import io.micrometer.core.instrument.binder.jvm.JvmThreadMetrics;
import io.micrometer.core.instrument.binder.system.FileDescriptorMetrics;
import io.micrometer.core.instrument.binder.system.ProcessorMetrics;
import io.micrometer.core.instrument.binder.system.UptimeMetrics;
import io.micrometer.prometheusmetrics.PrometheusConfig;
import io.micrometer.prometheusmetrics.PrometheusMeterRegistry;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** An operator as a user could have written it with the Java Operator SDK. It misbehaves on request. */
public final class GearOperator {

  private static final List<String> FLAGS =
      List.of("--namespace", "--metrics-listen", "--fault-listen", "--ready-after", "--concurrency");

  public static void main(String[] arguments) throws IOException {
    Map<String, String> flags = flags(arguments);
    PrometheusMeterRegistry registry = new PrometheusMeterRegistry(PrometheusConfig.DEFAULT);
    bindProcess(registry);
    Faults faults = new Faults();
    Operator operator = new Operator(settings -> settings
        .withMetrics(MicrometerMetricsV2.newBuilder(registry).build())
        .withConcurrentReconciliationThreads(Integer.parseInt(flags.getOrDefault("--concurrency", "2"))));
    double seconds = Double.parseDouble(flags.getOrDefault("--ready-after", "1"));
    Duration readyAfter = Duration.ofMillis(Math.round(seconds * 1000));
    String namespace = flags.get("--namespace");
    operator.register(new GearReconciler(faults, readyAfter), settings -> {
      if (namespace != null) {
        settings.settingNamespace(namespace);
      }
    });
    operator.installShutdownHook(Duration.ofSeconds(5));
    operator.start();
    if (flags.containsKey("--metrics-listen")) {
      serve(address(flags.get("--metrics-listen")), registry);
    }
    if (flags.containsKey("--fault-listen")) {
      faults.serve(address(flags.get("--fault-listen")));
    }
  }

  /** Adds what Spring Boot and Quarkus add, too. */
  @SuppressWarnings("resource")
  private static void bindProcess(PrometheusMeterRegistry registry) {
    new JvmMemoryMetrics().bindTo(registry);
    new JvmGcMetrics().bindTo(registry); // lives as long as the process
    new JvmThreadMetrics().bindTo(registry);
    new ProcessorMetrics().bindTo(registry);
    new FileDescriptorMetrics().bindTo(registry);
    new UptimeMetrics().bindTo(registry);
  }

  private static void serve(InetSocketAddress address, PrometheusMeterRegistry registry) throws IOException {
    HttpServer server = HttpServer.create(address, 0);
    server.createContext("/metrics", exchange -> {
      String accepted = exchange.getRequestHeaders().getFirst("Accept");
      String type = accepted != null && accepted.contains("application/openmetrics-text")
          ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
          : "text/plain; version=0.0.4; charset=utf-8";
      byte[] text = registry.scrape(type).getBytes(StandardCharsets.UTF_8);
      exchange.getResponseHeaders().set("Content-Type", type);
      exchange.sendResponseHeaders(200, text.length);
      exchange.getResponseBody().write(text);
      exchange.close();
    });
    server.start();
  }

  private static Map<String, String> flags(String[] arguments) {
    Map<String, String> flags = new HashMap<>();
    for (String argument : arguments) {
      String[] parts = argument.split("=", 2);
      if (parts.length != 2 || !FLAGS.contains(parts[0])) {
        throw new IllegalArgumentException(argument + " is not one of " + FLAGS + " with a value");
      }
      flags.put(parts[0], parts[1]);
    }
    return flags;
  }

  private static InetSocketAddress address(String text) {
    int colon = text.lastIndexOf(':');
    return new InetSocketAddress(text.substring(0, colon), Integer.parseInt(text.substring(colon + 1)));
  }
}
