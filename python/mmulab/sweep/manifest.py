"""What is created in Kubernetes for a sweep: a DaskCluster, and the secret with its certificates.

The Dask operator turns one resource, a DaskCluster, into pods. dask-kubernetes builds its general form. Here it gets
commands with TLS, because neither the operator nor dask-kubernetes' own KubeCluster encrypts what workers say.
"""

import json
from collections.abc import Callable
from typing import Any

from mmulab.sweep.cluster import DEATHS
from mmulab.sweep.pods import Pods, ours

# Where pods have the certificates, and the names of the files.
TLS_AT = "/etc/mmulab-tls"
CA, CERT, KEY = "ca.pem", "cert.pem", "key.pem"
_FILES = (("--tls-ca-file", CA), ("--tls-cert", CERT), ("--tls-key", KEY))
_TLS = ("--protocol", "tls", *(word for option, file in _FILES for word in (option, f"{TLS_AT}/{file}")))
# The port of the scheduler, as the operator's service expects it.
PORT = 8786
# For dask: no plain connections, no web pages but the one by which Kubernetes sees that the scheduler lives.
_SETTINGS = {
    "DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION": "True",
    "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": str(DEATHS),
    "DASK_DISTRIBUTED__SCHEDULER__HTTP__ROUTES": "['distributed.http.health']",
    "DASK_DISTRIBUTED__SCHEDULER__WORKER_SATURATION": "1.0",
    "DASK_DISTRIBUTED__WORKER__HTTP__ROUTES": "[]",
}
# Lists to which a file may add. Of two variables with one name, the last counts: ours.
_EXTENDED = ("env", "volumeMounts", "volumes")


def described(pods: Pods, name: str, namespace: str, make: Callable[..., dict[str, Any]]) -> dict[str, Any]:
    """The DaskCluster. `make`: dask-kubernetes' make_cluster_spec; `name`: the cluster's, and its secret's."""
    each = {"cpu": "1", "memory": str(pods.memory)}
    made = make(
        name=name,
        image=pods.image,
        n_workers=pods.workers,
        resources={"requests": each, "limits": each},
        env={**pods.env, **_SETTINGS},
    )
    # Copied part by part: the scheduler and the workers share some.
    spec: dict[str, Any] = json.loads(json.dumps(made))
    spec["metadata"]["labels"] = {"app.kubernetes.io/managed-by": "mmulab"}
    scheduler = ["dask_scheduler", "--host", "0.0.0.0", "--port", str(PORT)]
    # The operator's own address has no TLS. A batch's memory is what its machines need: the pod limits it, not Dask.
    worker = ["dask_worker", f"tls://{name}-scheduler.{namespace}.svc:{PORT}", "--name", "$(DASK_WORKER_NAME)"]
    worker += ["--nthreads", "1", "--no-dashboard", "--memory-limit", "0"]
    for part, words in (("scheduler", scheduler), ("worker", worker)):
        pod = spec["spec"][part]["spec"]
        (container,) = pod["containers"]
        # In place of what the image starts by itself, and without a shell.
        del container["args"]
        container["command"] = [pods.python, "-m", f"distributed.cli.{words[0]}", *words[1:], *_TLS]
        container["volumeMounts"] = [{"name": "mmulab-tls", "mountPath": TLS_AT, "readOnly": True}]
        pod["volumes"] = [{"name": "mmulab-tls", "secret": {"secretName": name}}]
        _extend(pod, pods.pod, "cluster.pod")
        _extend(container, pods.container, "cluster.container")
    return spec


def _extend(own: dict[str, Any], given: dict[str, Any], place: str) -> None:
    """Adds what a file gives to a description. Raises UserError for what mmulab sets itself."""
    for key, value in given.items():
        if key not in own:
            own[key] = value
        elif isinstance(own[key], dict) and isinstance(value, dict):
            _extend(own[key], value, f"{place}.{key}")
        elif key in _EXTENDED and isinstance(value, list):
            own[key] = [*value, *own[key]]
        else:
            raise ours(f"{place}.{key}")


def secret(name: str, namespace: str, uid: str, files: dict[str, str]) -> dict[str, Any]:
    """The certificates, by file, for the pods of a cluster. Kubernetes removes them with it (`uid`)."""
    owner = {"apiVersion": "kubernetes.dask.org/v1", "kind": "DaskCluster", "name": name, "uid": uid}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {"app.kubernetes.io/managed-by": "mmulab"},
            "ownerReferences": [owner],
        },
        "stringData": files,
    }
