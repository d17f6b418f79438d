"""All faults of the operator, those that are on, and the HTTP server that switches them.

The server has a thread of its own, so that it also answers while a handler blocks the event loop.
"""

import asyncio
import json
import os
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

# The one table of faults, with the names that they have in the widget-operator.
CATALOG = {
    "Unacknowledged": ("the operator ignores changes, and writes nothing; without selectors it has stopped", {}),
    "Overdue": ("the operator acknowledges changes, and the object does not become ready", {}),
    "ReconcileFailing": ("the first attempts to handle a change fail, or all if attempts is 0", {"attempts": 0}),
    "ReconcileStuck": ("a handler blocks the event loop, so that the operator does nothing else", {}),
    "FinalizerStuck": ("the cleanup of a deleted object does not end", {}),
    "TaskLeak": ("each change starts asyncio tasks that do not end", {"tasks": 1}),
    "HeapLeak": ("the process allocates memory at a rate in bytes per second, and keeps it", {"rate": 1 << 20}),
    "Crash": (
        "the process ends with an error: after a delay in milliseconds, or, with selectors, that long after it began to handle such an object",
        {"delay": 1000},
    ),
}

OF_PROCESS = {"HeapLeak"}

TICK = 0.1


class Fault:
    """A fault that is on, for the objects that it selects."""

    def __init__(self, name, query):
        if name not in CATALOG:
            raise ValueError(f"no such fault: {name!r}")
        self.name = name
        self.params = dict(CATALOG[name][1])
        self.selectors = {}
        self.since = time.monotonic()
        for key, value in query:
            if key in ("namespace", "name") and name not in OF_PROCESS:
                self.selectors[key] = value
            elif key in self.params and value.isdecimal():
                self.params[key] = int(value)
            else:
                raise ValueError(f"{name} takes no parameter {key}={value}")

    def selects(self, meta):
        return all(meta[key] == value for key, value in self.selectors.items())

    def shown(self):
        return {"fault": self.name, "params": self.params, **self.selectors}


class Faults:
    """The faults that are on, and what they keep."""

    def __init__(self):
        self.active = []
        self.failed = {}
        self.tasks = []
        self.memory = []

    def put(self, fault):
        self.remove(fault.name, fault.selectors)
        self.active = [*self.active, fault]

    def remove(self, name, selectors=None):
        """Switches a fault off: with these selectors, or with any."""
        gone = [f for f in self.active if name in (None, f.name) and selectors in (None, f.selectors)]
        self.active = [f for f in self.active if f not in gone]
        return gone

    def on(self, name, meta):
        return next((f for f in self.active if f.name == name and f.selects(meta)), None)

    async def disturb(self, meta):
        """Applies the faults to the handling of one object. Returns whether it fails."""
        while self.on("Unacknowledged", meta):
            await asyncio.sleep(TICK)
        if fault := self.on("TaskLeak", meta):
            self.tasks += [asyncio.create_task(self.leaked_task(fault)) for _ in range(fault.params["tasks"])]
        while self.on("ReconcileStuck", meta):
            time.sleep(TICK)  # blocks the event loop, on purpose
        fault = self.on("Crash", meta)
        if fault and fault.selectors:
            await asyncio.sleep(fault.params["delay"] / 1000)
            if fault in self.active:
                crash(f"cannot handle {meta['name']}")
        return self.fails(meta)

    def fails(self, meta):
        """Reports whether this attempt fails, and counts it."""
        fault = self.on("ReconcileFailing", meta)
        if fault is None:
            self.failed.pop(meta["uid"], None)
            return False
        count = self.failed.get(meta["uid"], 0)
        self.failed[meta["uid"]] = count + 1
        return fault.params["attempts"] == 0 or count < fault.params["attempts"]

    async def leaked_task(self, fault):
        while fault in self.active:
            await asyncio.sleep(1)

    def disturb_process(self):
        """Applies the faults of the process, again and again."""
        while True:
            leak = next((f for f in self.active if f.name == "HeapLeak"), None)
            if leak is None:
                self.memory.clear()
            else:
                wanted = int((time.monotonic() - leak.since) * leak.params["rate"])
                self.memory.append(b"x" * max(0, wanted - sum(map(len, self.memory))))
            for fault in self.active:
                if fault.name == "Crash" and not fault.selectors:
                    if time.monotonic() - fault.since >= fault.params["delay"] / 1000:
                        crash("the fault Crash is on")
            time.sleep(TICK)


def crash(reason):
    print(f"gadget-operator: {reason}", flush=True)
    os._exit(1)


def serve(faults, address):
    """Switches faults over HTTP: `PUT /faults/Crash?name=one`, `DELETE /faults/Crash`, `DELETE /faults`, `GET /faults`,
    `GET /catalog`."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self, body, code=200):
            encoded = json.dumps(body).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(encoded)))
            self.end_headers()
            self.wfile.write(encoded)

        def fault(self):
            url = urlsplit(self.path)
            folder, _, name = url.path.lstrip("/").partition("/")
            if folder != "faults":
                raise ValueError(f"no such path: {url.path}")
            return Fault(name, parse_qsl(url.query)) if name else None

        def do_GET(self):
            if self.path == "/catalog":
                rows = [{"name": name, "effect": effect, "params": params} for name, (effect, params) in CATALOG.items()]
                return self.answer(rows)
            self.answer([fault.shown() for fault in faults.active])

        def do_PUT(self):
            self.switch(lambda fault: faults.put(fault) or [fault])

        def do_DELETE(self):
            self.switch(lambda fault: faults.remove(fault and fault.name, (fault and fault.selectors) or None))

        def switch(self, change):
            try:
                fault = self.fault()
                if fault is None and self.command == "PUT":
                    raise ValueError("which fault?")
            except ValueError as error:
                return self.answer({"error": str(error)}, 400)
            self.answer({"faults": [fault.shown() for fault in change(fault)]})

        def log_message(self, text, *arguments):
            print("faults:", text % arguments, flush=True)

    host, _, port = address.rpartition(":")
    if host != "127.0.0.1":
        raise SystemExit(f"--fault-listen must be a loopback address, not {address}")
    server = ThreadingHTTPServer((host, int(port)), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    threading.Thread(target=faults.disturb_process, daemon=True).start()
