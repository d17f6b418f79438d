"""The gadget-operator is an operator as a user could have written it with kopf. It misbehaves on request."""

import argparse
import asyncio
import datetime

import kopf

from faults import TICK, Faults, serve

GADGETS = ("zoo.loopwatch.dev", "v1", "gadgets")

faults = Faults()
options = argparse.Namespace(ready_after=0.2)


@kopf.on.startup()
def configure(settings, **_):
    # The API server keeps a watch open for this long; kopf would otherwise wait for a closed connection.
    settings.watching.server_timeout = 300
    # After a write, kopf waits for the event of that write before it handles the object again: 5 s by default, which is
    # longer than the deadlines of the tests. It may wait for all of that time.
    settings.persistence.consistency_timeout = 1.0
    settings.posting.level = 30  # Events only for warnings and errors


@kopf.on.resume(*GADGETS)
@kopf.on.create(*GADGETS)
@kopf.on.update(*GADGETS, field="spec")
async def reconcile(spec, meta, status, patch, **_):
    """Brings one object to its spec."""
    if await faults.disturb(meta):
        raise kopf.TemporaryError("the backend refuses the connection", delay=1)
    await asyncio.sleep(options.ready_after)
    image = spec.get("image", "")
    late = faults.on("Overdue", meta)
    if not image or "invalid" in image:
        ready = ("False", "InvalidSpec", f"spec.image {image!r} is not the name of an image")
    elif late:
        ready = ("False", "Progressing", "the backend is not ready yet")
    else:
        ready = ("True", "Available", "everything is as the spec says")
    patch.status["observedGeneration"] = meta["generation"]
    patch.status["conditions"] = [condition(status, meta, "Ready", *ready)]
    if late:
        raise kopf.TemporaryError("the backend is not ready yet", delay=0.5)  # kopf writes the status nevertheless


def condition(status, meta, kind, value, reason, message):
    """Returns a condition, which keeps the time of its last transition."""
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    old = next((c for c in status.get("conditions", []) if c.get("type") == kind), {})
    since = old.get("lastTransitionTime", now) if old.get("status") == value else now
    return {
        "type": kind,
        "status": value,
        "reason": reason,
        "message": message,
        "lastTransitionTime": since,
        "observedGeneration": meta["generation"],
    }


@kopf.on.delete(*GADGETS)
async def clean_up(meta, **_):
    """Cleans up after a deleted object. Because of this handler, kopf adds its finalizer to each object."""
    while faults.on("FinalizerStuck", meta):
        await asyncio.sleep(TICK)
    if await faults.disturb(meta):
        raise kopf.TemporaryError("the backend refuses to let go", delay=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--namespace", help="the only namespace to work in; by default all")
    parser.add_argument("--fault-listen", help="loopback address where faults are switched on and off")
    parser.add_argument("--liveness", help="URL of the health endpoint, http://127.0.0.1:PORT/healthz")
    parser.add_argument("--ready-after", type=float, default=1.0, help="seconds that a change takes")
    parser.parse_args(namespace=options)
    if options.fault_listen:
        serve(faults, options.fault_listen)
    kopf.configure(verbose=False)
    scope = {"namespaces": [options.namespace]} if options.namespace else {"clusterwide": True}
    kopf.run(standalone=True, liveness_endpoint=options.liveness, **scope)


if __name__ == "__main__":
    main()
