"""Workers as pods of Kubernetes, by the Dask operator: `[cluster]` of a sweep file with kind = "kubernetes".

The command creates a DaskCluster, whose pods the operator starts: a scheduler and the workers. Their connections use
TLS with certificates that are made for this sweep and that only its pods and this process have.

    DaskCluster --operator--> pods <--secret: certificates
                               ^
    command -- API server -----'    by a forwarded port of 127.0.0.1; inside the cluster, by the service's name

dask-kubernetes' own class for this, KubeCluster, speaks to the scheduler without TLS. So only its description of a
cluster is used here, and kr8s, on which it is built, to create what is described.
"""

import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from mmulab import Failure, UserError
from mmulab.extras import need
from mmulab.sweep import manifest
from mmulab.sweep.awaited import Awaited
from mmulab.sweep.cluster import CLOSING, LOOPBACK, PATIENCE, distributed_package
from mmulab.sweep.pods import Pods

# Seconds until the operator has made a pod, and between two looks at pods.
OPERATOR, POLL = 60, 0.5
# Why a container waits when it will not start by itself.
BROKEN = (
    "CrashLoopBackOff",
    "CreateContainerConfigError",
    "CreateContainerError",
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "RunContainerError",
)
_SERVES = "a sweep on Kubernetes"
_INSTALL = (
    "helm install --repo https://helm.dask.org --create-namespace -n dask-operator --generate-name "
    "dask-kubernetes-operator"
)


def started(pods: Pods) -> Awaited:
    """Creates the cluster, and waits for its first worker. Whatever fails, what was created is removed."""
    operator = need("dask_kubernetes.operator", "dask-kubernetes", _SERVES, extra="kubernetes")
    kr8s = need("kr8s", "kr8s", _SERVES, extra="kubernetes")
    need("cryptography", "cryptography", _SERVES, extra="kubernetes")
    distributed = distributed_package()
    errors = _errors(kr8s)
    api = _api(kr8s, errors)
    namespace = pods.namespace or api.namespace
    name = f"mmulab-{secrets.token_hex(4)}"
    security = distributed.Security.temporary()
    with _refusals(errors, namespace):
        created = Created(kr8s, api, manifest.described(pods, name, namespace, operator.make_cluster_spec), namespace)
    try:
        with _refusals(errors, namespace):
            created.share(security)
            scheduler = created.scheduler()
            address = created.address(scheduler)
            client = distributed.Client(address, security=security, timeout=PATIENCE, set_as_default=False)
            while not client.nthreads():
                created.refuse_broken()
                time.sleep(POLL)
        gone = f"no worker of {name} has been running for {{minutes}} minutes; perhaps no node has room for one"
        return Awaited(client, created, pods.total, gone, lambda: None)
    except BaseException:
        # Ctrl-C while the pods start, too.
        created.close()
        raise


class Created:
    """A DaskCluster, its secret, and the way to its scheduler."""

    def __init__(self, kr8s: Any, api: Any, spec: dict[str, Any], namespace: str) -> None:
        """Creates the cluster."""
        self._kr8s, self._api, self._namespace = kr8s, api, namespace
        self.name: str = spec["metadata"]["name"]
        kind = kr8s.objects.new_class("DaskCluster", "kubernetes.dask.org/v1", asyncio=False)
        self._cluster = kind(spec, namespace=namespace, api=api)
        self._cluster.create()
        self._secret: Any = None
        self._forward: Any = None

    def share(self, security: Any) -> None:
        """Gives the pods their certificates. Pods that are there already wait for them."""
        files = {
            manifest.CA: security.tls_ca_file,
            manifest.CERT: security.tls_worker_cert,
            manifest.KEY: security.tls_worker_key,
        }
        text = manifest.secret(self.name, self._namespace, str(self._cluster.metadata["uid"]), files)
        self._secret = self._kr8s.objects.Secret(text, namespace=self._namespace, api=self._api)
        self._secret.create()

    def scheduler(self) -> Any:
        """The scheduler's pod, once it is ready."""
        until = time.monotonic() + OPERATOR
        while True:
            found = self._pods("scheduler")
            for pod in found:
                conditions = pod.raw.get("status", {}).get("conditions", [])
                if any(one["type"] == "Ready" and one["status"] == "True" for one in conditions):
                    return pod
            self.refuse_broken()
            if not found and time.monotonic() > until:
                raise Failure(
                    f"Kubernetes has no pod for {self.name} after {OPERATOR} s: the Dask operator may not be running\n"
                    f"hint: see its log, or install it: {_INSTALL}"
                )
            time.sleep(POLL)

    def _pods(self, component: str | None = None) -> list[Any]:
        selector = f"dask.org/cluster-name={self.name}"
        if component is not None:
            selector += f",dask.org/component={component}"
        found = self._kr8s.objects.Pod.list(namespace=self._namespace, api=self._api, label_selector=selector)
        return list(found)

    def refuse_broken(self) -> None:
        """Raises Failure if a pod will not start by itself: an image that is not there, or that has no mmulab."""
        for pod in self._pods():
            for container in pod.raw.get("status", {}).get("containerStatuses", []):
                waits = container.get("state", {}).get("waiting") or {}
                if waits.get("reason") in BROKEN:
                    said = f"{waits['reason']}: {waits['message']}" if waits.get("message") else waits["reason"]
                    raise Failure(
                        f"the pod {pod.name} does not start: {said}\n"
                        "hint: [cluster] image must be one that the nodes can pull, and its python must have "
                        "'mmulab[sweep]'"
                    )

    def address(self, scheduler: Any) -> str:
        """Where the scheduler is reached from here."""
        if "KUBERNETES_SERVICE_HOST" in os.environ:
            return f"tls://{self.name}-scheduler.{self._namespace}.svc:{manifest.PORT}"
        self._forward = scheduler.portforward(manifest.PORT, local_port="auto", address=LOOPBACK)
        self._forward.start()
        until = time.monotonic() + PATIENCE
        while not self._forward.servers:
            if time.monotonic() > until:
                raise Failure(f"no port of {LOOPBACK} could be forwarded to the scheduler\nhint: repeat the command")
            time.sleep(POLL)
        return f"tls://{LOOPBACK}:{self._forward.local_port}"

    def close(self, timeout: float = CLOSING) -> None:
        """Removes everything. `timeout`: as pools have it; Kubernetes ends the pods by itself."""
        if self._forward is not None:
            self._forward.stop()
        try:
            for one in (self._secret, self._cluster):
                if one is not None:
                    with suppress(self._kr8s.NotFoundError):
                        one.delete()
        except _errors(self._kr8s) as error:
            raise Failure(
                f"the pods of {self.name} could not be removed: {_first(error)}\n"
                f"hint: kubectl delete -n {self._namespace} daskcluster {self.name}"
            ) from None


def _errors(kr8s: Any) -> tuple[type[Exception], ...]:
    """What requests to an API server raise."""
    httpx = need("httpx", "httpx", _SERVES, extra="kubernetes")
    own = (kr8s.ServerError, kr8s.APITimeoutError, kr8s.NotFoundError, kr8s.ConnectionClosedError)
    # Of a file of credentials that is not one, kr8s raises what it stumbles on.
    return (*own, httpx.HTTPError, OSError, ValueError, LookupError, RuntimeError)


def _api(kr8s: Any, errors: tuple[type[Exception], ...]) -> Any:
    """The API server of the user's context, or of the cluster in which this runs. Raises UserError without one."""
    try:
        # Named, because kr8s would else give a connection that it has, whatever KUBECONFIG says now.
        return _within(PATIENCE, partial(kr8s.api, kubeconfig=os.environ.get("KUBECONFIG")))
    except errors as error:
        raise UserError(
            f"no API server of Kubernetes answers: {_first(error)}\n"
            "hint: `kubectl get pods` must work here (KUBECONFIG names its file); or --workers N runs the sweep on "
            "this computer"
        ) from None


def _within(seconds: float, call: Callable[[], Any]) -> Any:
    """What a call gives. Raises TimeoutError if it takes longer: a server that drops packets would take minutes."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append((call(), None))
        except Exception as error:
            found.append((None, error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if not found:
        raise TimeoutError(f"no answer in {seconds} s")
    ((value, error),) = found
    if error is not None:
        raise error
    return value


@contextmanager
def _refusals(errors: tuple[type[Exception], ...], namespace: str) -> Iterator[None]:
    """Says what the API server's refusals mean."""
    try:
        yield
    except errors as error:
        status = getattr(getattr(error, "response", None), "status_code", None)
        if status == 404:
            raise UserError(
                f"Kubernetes knows no DaskCluster, or no namespace {namespace}: {_first(error)}\n"
                f"hint: install the Dask operator: {_INSTALL}"
            ) from None
        if status in (401, 403):
            raise UserError(
                f"Kubernetes does not allow it in the namespace {namespace}: {_first(error)}\n"
                "hint: ask for the right to create daskclusters and secrets, to list pods and to forward their ports"
            ) from None
        raise Failure(
            f"Kubernetes did not start the workers: {_first(error)}\nhint: see [cluster] in the sweep file"
        ) from None


def _first(error: Exception) -> str:
    return next(filter(None, str(error).splitlines()), type(error).__name__)
