"""Workers as pods of Kubernetes: what is described, created and refused.

No Kubernetes is here. Descriptions are built by dask-kubernetes. A stand-in for the API server runs the commands of the
pods as processes, so that a whole sweep goes through kr8s, a forwarded port and TLS.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import Cli
from fake_kubernetes import NAMESPACE, FakeKubernetes
from sweeps import SMALL, SMALL_JOBS, written

from mmulab import Failure, UserError, sweep
from mmulab.sweep import manifest, podded, pods

AXES: dict[str, Any] = {"axes": {"trace": "gen:gups", "machine": "zen3-5900x"}}
GIVEN: dict[str, Any] = {
    "kind": "kubernetes",
    "image": "registry.local/mmulab:1",
    "workers": 3,
    "memory": "8G",
    "namespace": "lab",
    "python": "/opt/mmulab/bin/python",
    "env": {"AWS_REGION": "eu-1"},
    "pod": {
        "nodeSelector": {"cpu": "skylake"},
        "volumes": [{"name": "traces", "persistentVolumeClaim": {"claimName": "traces"}}],
    },
    "container": {
        "volumeMounts": [{"name": "traces", "mountPath": "/traces"}],
        "env": [{"name": "DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION", "value": "False"}],
    },
}


@pytest.fixture
def make() -> Any:
    """dask-kubernetes' own builder of descriptions."""
    pytest.importorskip("cryptography")
    return pytest.importorskip("dask_kubernetes.operator").make_cluster_spec


@pytest.fixture
def kubernetes(make: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeKubernetes]:
    """The stand-in, found by its file of credentials."""
    fake = FakeKubernetes(tmp_path)
    monkeypatch.setenv("KUBECONFIG", str(fake.kubeconfig()))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    yield fake
    fake.close()


def test_a_cluster_has_what_the_sweep_file_says(make: Any) -> None:
    parsed = sweep.parse({**AXES, "cluster": GIVEN}).cluster
    assert isinstance(parsed, pods.Pods)
    assert (parsed.total, parsed.memory) == (3, 8 << 30)
    spec = manifest.described(parsed, "mmulab-1", "lab", make)
    assert (spec["kind"], spec["metadata"]["name"]) == ("DaskCluster", "mmulab-1")
    assert spec["spec"]["worker"]["replicas"] == 3
    tls = ["--protocol", "tls"]
    for option, file in (("ca-file", "ca"), ("cert", "cert"), ("key", "key")):
        tls += [f"--tls-{option}", f"/etc/mmulab-tls/{file}.pem"]
    for part in ("scheduler", "worker"):
        pod = spec["spec"][part]["spec"]
        assert pod["nodeSelector"] == {"cpu": "skylake"}
        assert [volume["name"] for volume in pod["volumes"]] == ["traces", "mmulab-tls"]
        assert pod["volumes"][1]["secret"] == {"secretName": "mmulab-1"}
        (container,) = pod["containers"]
        assert container["image"] == "registry.local/mmulab:1"
        assert container["resources"]["limits"] == {"cpu": "1", "memory": str(8 << 30)}
        assert container["resources"]["requests"] == container["resources"]["limits"]
        assert [mount["mountPath"] for mount in container["volumeMounts"]] == ["/traces", "/etc/mmulab-tls"]
        env = {one["name"]: one["value"] for one in container["env"]}
        assert env["AWS_REGION"] == "eu-1"
        assert env["DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION"] == "True", "the last of two counts"
        assert container["command"][:3] == ["/opt/mmulab/bin/python", "-m", f"distributed.cli.dask_{part}"]
        assert container["command"][-len(tls) :] == tls
        assert "args" not in container
    assert "tls://mmulab-1-scheduler.lab.svc:8786" in container["command"]
    assert "PRIVATE" not in json.dumps(spec), "certificates are in the secret alone"
    # What dask-kubernetes describes for the operator stays.
    made = make(name="mmulab-1")["spec"]
    assert spec["spec"]["scheduler"]["service"] == made["scheduler"]["service"]
    probe = made["scheduler"]["spec"]["containers"][0]["readinessProbe"]
    assert spec["spec"]["scheduler"]["spec"]["containers"][0]["readinessProbe"] == probe


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"image": None}, "cluster.image: None: give a container image with mmulab"),
        ({"image": "a b"}, "cluster.image: 'a b': give a container image"),
        ({"memory": 8}, "cluster.memory: 8: give the memory of each pod"),
        ({"workers": 0}, "cluster.workers: 0: give 1 to 10000"),
        ({"namespace": "A"}, "cluster.namespace: 'A': give small letters, digits and -"),
        ({"python": ""}, "cluster.python: '': give the image's Python"),
        ({"env": {"A": 1}}, "cluster.env: A = 1: give variables with texts"),
        ({"env": {"DASK_DISTRIBUTED__WORKER__HTTP__ROUTES": ""}}, "HTTP__ROUTES: mmulab sets it"),
        ({"pod": {"containers": []}}, "cluster.pod.containers: mmulab sets it"),
        ({"container": {"command": ["sh"]}}, "cluster.container.command: mmulab sets it"),
        ({"container": ["sh"]}, "cluster.container: ['sh'] is not a table"),
        ({"container": {"x": float("nan")}}, "cluster.container: "),
        ({"walltime": "1:00"}, "cluster: walltime: a cluster of kind kubernetes has no such key"),
    ],
)
def test_a_mistake_is_refused_with_its_place(change: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError) as refused:
        sweep.parse({**AXES, "cluster": {**GIVEN, **change}})
    assert said in str(refused.value)
    assert "\nhint:" in str(refused.value) or ": give " in str(refused.value)


def test_what_mmulab_sets_below_is_refused_too(make: Any) -> None:
    parsed = pods.parse_pods({**GIVEN, "container": {"resources": {"limits": {"cpu": "9"}}}}, "cluster")
    with pytest.raises(UserError, match=r"cluster\.container\.resources\.limits\.cpu: mmulab sets it"):
        manifest.described(parsed, "mmulab-1", "lab", make)


def _file(directory: Path, workers: int = 2) -> Path:
    text = f'[cluster]\nkind = "kubernetes"\nimage = "mmulab"\nmemory = "1G"\nworkers = {workers}\n'
    return written(directory, f'{SMALL}{text}python = "{sys.executable}"\n')


def test_without_its_package_it_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = sweep.plan(sweep.read(_file(tmp_path)))
    monkeypatch.setitem(sys.modules, "dask_kubernetes.operator", None)
    with pytest.raises(UserError, match=r"needs dask-kubernetes, .*\n.*mmulab\[kubernetes\]"):
        sweep.run(plan, tmp_path / "out")


def test_without_an_api_server_it_is_refused(make: Any, tmp_path: Path) -> None:
    """None is configured, or nobody listens there. On this computer the sweep runs with --workers all the same."""
    _file(tmp_path)
    fake = FakeKubernetes(tmp_path)
    config = fake.kubeconfig()
    fake.close()
    for file in ("absent", str(config)):
        ran = Cli(tmp_path)("sweep", "sweep.toml", KUBECONFIG=file, HOME=str(tmp_path))
        assert ran.code == 2, ran.err
        assert "error: no API server of Kubernetes answers: " in ran.err
        assert "hint: `kubectl get pods` must work here" in ran.err
    assert Cli(tmp_path)("sweep", "sweep.toml", "--workers", "1").code == 0


@pytest.mark.parametrize(
    ("asked", "status", "error", "said"),
    [
        ("POST daskclusters", 404, UserError, "install the Dask operator: helm install"),
        ("POST daskclusters", 403, UserError, "does not allow it in the namespace tests: POST daskclusters is refused"),
        ("POST secrets", 403, UserError, "ask for the right to create daskclusters and secrets"),
        ("POST secrets", 500, Failure, "Kubernetes did not start the workers"),
    ],
)
def test_a_refusal_is_named_and_nothing_is_left(
    kubernetes: FakeKubernetes, tmp_path: Path, asked: str, status: int, error: type[Exception], said: str
) -> None:
    plan = sweep.plan(sweep.read(_file(tmp_path)))
    kubernetes.refuses[asked] = status
    with pytest.raises(error) as refused:
        sweep.run(plan, tmp_path / "out")
    assert said in str(refused.value)
    assert kubernetes.objects == {}


def test_a_pod_that_does_not_start_ends_the_sweep(kubernetes: FakeKubernetes, tmp_path: Path) -> None:
    plan = sweep.plan(sweep.read(_file(tmp_path)))
    kubernetes.waiting = {"reason": "ImagePullBackOff", "message": "no such image"}
    with pytest.raises(Failure, match="the pod the-scheduler does not start: ImagePullBackOff: no such image"):
        sweep.run(plan, tmp_path / "out")
    assert kubernetes.objects == {}


def test_an_operator_that_does_nothing_is_named(
    kubernetes: FakeKubernetes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = sweep.plan(sweep.read(_file(tmp_path)))
    monkeypatch.setattr(kubernetes, "pods", lambda _: [])
    monkeypatch.setattr(podded, "OPERATOR", 0)
    with pytest.raises(Failure, match=r"has no pod for mmulab-\w+ after 0 s: the Dask operator may not be running"):
        sweep.run(plan, tmp_path / "out")
    assert kubernetes.objects == {}


def test_a_sweep_by_pods_gives_what_one_worker_gives(kubernetes: FakeKubernetes, tmp_path: Path) -> None:
    """And its secret and its cluster are removed at the end."""
    plan = sweep.plan(sweep.read(_file(tmp_path)))
    outcome = sweep.run(plan, tmp_path / "podded", batch=2)
    assert (outcome.ran, outcome.failed) == (SMALL_JOBS, [])
    assert [one for one in kubernetes.asked if one != "GET pods"] == [
        "POST daskclusters",
        "POST secrets",
        "DELETE secrets",
        "DELETE daskclusters",
    ]
    sweep.run(plan, tmp_path / "here", workers=1)
    for name in ("results.parquet", "regions.parquet"):
        assert (tmp_path / "podded" / name).read_bytes() == (tmp_path / "here" / name).read_bytes()


def test_pods_that_cannot_be_removed_are_named(kubernetes: FakeKubernetes, tmp_path: Path) -> None:
    kubernetes.refuses["DELETE daskclusters"] = 403
    plan = sweep.plan(sweep.read(_file(tmp_path)))
    with pytest.raises(Failure, match=rf"could not be removed: .*\nhint: kubectl delete -n {NAMESPACE} daskcluster"):
        sweep.run(plan, tmp_path / "out", batch=6)
