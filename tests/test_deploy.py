"""What `deploy/` asks for is valid, and fits the server: its options, port, probes, user and time to stop."""

import copy
import json
import re
import subprocess
import sys

import pytest
import yaml
from server_process import ROOT

from nmn_keras import zoo
from serve.__main__ import parse_arguments
from serve.app import create_app
from serve.stores.choice import is_shared_by_machines
from serve.workers import DRAIN_SECONDS

DEPLOY = ROOT / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
KUBERNETES = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))
RAY = yaml.safe_load((DEPLOY / "ray-serve.yaml").read_text())
DOCKERFILE = (ROOT / "Dockerfile").read_text()
PORT = int(re.search(r"^EXPOSE (\d+)$", DOCKERFILE, re.MULTILINE)[1])
USER = int(re.search(r"useradd --uid (\d+)", DOCKERFILE)[1])


def pod(kind):
    (found,) = [each for each in KUBERNETES if each["kind"] == kind]
    return found["spec"]["template"]["spec"]


def seconds(text):
    return int(text.removesuffix("s"))


def check_compose(file):
    pytest.importorskip("check_jsonschema")
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(file)]
    return subprocess.run(command, capture_output=True, text=True)


def test_the_compose_file_follows_the_specification_s_schema(tmp_path):
    done = check_compose(DEPLOY / "compose.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    broken = copy.deepcopy(COMPOSE)
    broken["services"]["server"]["deploy"] = {"replica": 3}
    (tmp_path / "broken.yaml").write_text(yaml.safe_dump(broken))
    assert check_compose(tmp_path / "broken.yaml").returncode == 1


@pytest.mark.parametrize("version", ["1.30", "1.37"])  # the oldest that can wait before it stops, the newest known
def test_every_kubernetes_object_follows_its_schema(version):
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    kinds = [each["kind"] for each in KUBERNETES]
    needed = {"Deployment", "Service", "HorizontalPodAutoscaler", "PodDisruptionBudget", "StatefulSet", "NetworkPolicy"}
    assert needed == set(kinds)
    for each in KUBERNETES:
        kubernetes_validate.validate(each, version, strict=True)
    broken = copy.deepcopy(KUBERNETES[0])
    broken["spec"]["template"]["spec"]["containers"][0]["readinesProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError, match="readinesProbe"):
        kubernetes_validate.validate(broken, version, strict=True)


def test_the_load_balancer_takes_its_file(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    from balancer import find_haproxy

    program = find_haproxy() or pytest.skip("haproxy is not installed: apt-get install haproxy")

    def check(text):
        (tmp_path / "haproxy.cfg").write_text(text)
        command = [program, "-c", "-f", str(tmp_path / "haproxy.cfg")]
        return subprocess.run(command, capture_output=True, text=True)

    text = (DEPLOY / "haproxy.cfg").read_text()
    done = check(text)
    assert done.returncode == 0 and "WARNING" not in done.stderr, done.stderr
    assert check(text.replace("retry-on conn-failure", "retry-on everything")).returncode == 1


@pytest.fixture(scope="module")
def paths():
    """What the server can be asked by GET."""
    app = create_app({"b1-nmn": zoo.load("b1-nmn", runtime="onnx")})
    return {route.path for route in app.routes if "GET" in (getattr(route, "methods", None) or ())}


def test_compose_fits_the_image_and_the_balancer(paths):
    server, balancer = COMPOSE["services"]["server"], COMPOSE["services"]["balancer"]
    check_command(server["command"])
    assert server["deploy"]["replicas"] == 3 and seconds(server["stop_grace_period"]) > DRAIN_SECONDS
    assert f"/run/secrets/{server['secrets'][0]}" in server["command"] and "ports" not in server
    (file,) = [secret["file"] for secret in COMPOSE["secrets"].values()]
    assert all(f"deploy/{file}" in (ROOT / name).read_text().split() for name in (".gitignore", ".dockerignore"))
    text = (DEPLOY / "haproxy.cfg").read_text()
    assert f"server:{PORT} " in text and re.search(r" uri (\S+)", text)[1] in paths
    grpc = parse_arguments(server["command"]).grpc_port
    assert [port.split(":")[::2] for port in balancer["ports"]] == [["127.0.0.1", str(p)] for p in (PORT, grpc)]
    assert f"server:{grpc} proto h2" in text and f"bind :{grpc} proto h2\n" in text
    assert f"bind :{PORT}\n" in text and balancer["volumes"][0].startswith("./haproxy.cfg:")
    assert "yes" in COMPOSE["services"]["redis"]["command"] and COMPOSE["services"]["redis"]["volumes"]


def test_kubernetes_fits_the_image(paths):
    of = pod("Deployment")
    (server,) = of["containers"]
    check_command(server["args"])
    grpc = parse_arguments(server["args"]).grpc_port
    assert server["ports"] == [{"name": "http", "containerPort": PORT}, {"name": "grpc", "containerPort": grpc}]
    probes = {name: probe["httpGet"] for name, probe in server.items() if name.endswith("Probe")}
    assert set(probes) == {"startupProbe", "livenessProbe", "readinessProbe"}
    assert all(get["path"] in paths and get["port"] == "http" for get in probes.values())
    assert probes["readinessProbe"]["path"] == "/health/ready" and probes["livenessProbe"]["path"] == "/health/live"
    assert of["securityContext"]["runAsUser"] == USER and of["securityContext"]["runAsNonRoot"]
    assert server["securityContext"]["readOnlyRootFilesystem"]
    waits = server["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert of["terminationGracePeriodSeconds"] > waits + DRAIN_SECONDS
    (mount,) = server["volumeMounts"]
    assert server["args"][server["args"].index("--api-keys") + 1].startswith(mount["mountPath"] + "/")
    redis = pod("StatefulSet")["containers"][0]
    services = {each["metadata"]["name"]: each["spec"] for each in KUBERNETES if each["kind"] == "Service"}
    host, port = re.search(r"redis://([\w-]+):(\d+)", " ".join(server["args"])).groups()
    assert services[host]["ports"][0]["port"] == redis["ports"][0]["containerPort"] == int(port)
    templates = [each["spec"]["template"]["metadata"]["labels"] for each in KUBERNETES if "template" in each["spec"]]
    assert all(service["selector"] in templates for service in services.values())


def check_command(words):
    """The server's own parser takes the image's command with these words, and replicas share a store."""
    *command, host, address = json.loads(re.search(r"^ENTRYPOINT (.*)$", DOCKERFILE, re.MULTILINE)[1])
    assert command == ["python", "-m", "serve"]
    parsed = parse_arguments([host, address, *words])
    assert (parsed.host, parsed.port, parsed.workers) == ("0.0.0.0", PORT, 1)
    assert is_shared_by_machines(parsed.store) and parsed.api_keys


def test_ray_takes_its_file_and_the_application_its_arguments():
    pytest.importorskip("ray.serve")
    from ray.serve.schema import ServeDeploySchema

    from serve import ray_app

    schema = ServeDeploySchema.model_validate(RAY)
    (application,) = schema.applications
    assert application.import_path == "serve.ray_app:app" and schema.http_options.port == PORT
    deployment = deployment_of(ray_app.app(application.args))
    scaling = deployment._deployment_config.autoscaling_config
    assert (scaling.min_replicas, scaling.max_replicas, scaling.target_ongoing_requests) == (3, 12, 32)
    assert deployment._deployment_config.graceful_shutdown_timeout_s == DRAIN_SECONDS
    # From the command line everything is text.
    told = {"store": "redis://127.0.0.1:6379/0", "replicas": "2", "agents": "b1-nmn,b3-nmn", "access_log": "true"}
    assert deployment_of(ray_app.app(told)).num_replicas == 2
    read = ray_app._read(told)
    assert (read.agents, read.access_log, read.max_replicas) == (["b1-nmn", "b3-nmn"], True, None)


def deployment_of(application):
    return application._bound_deployment


@pytest.mark.parametrize(
    "arguments, reason",
    [
        ({"replicas": 2}, "2 replicas need a store that all of them see.*Received: memory$"),
        (
            {"max_replicas": 5, "store": "sqlite:////tmp/a.db"},
            "5 replicas need a store.*Accepted: store=redis:.*sqlite$",
        ),
        ({"replicas": 3, "max_replicas": 2, "store": "redis://a:1/0"}, "must be replicas=3 or more. Received: 2"),
        ({"replicas": 0}, "Accepted: zoo, agents, store.*Received: .*>= 1.*replicas"),
        ({"workers": 2}, "Received: .*unknown field `workers`"),
        ({"ttl_seconds": "soon"}, "Received: .*ttl_seconds"),
    ],
)
def test_ray_s_application_refuses_what_would_lose_sessions(arguments, reason):
    pytest.importorskip("ray.serve")
    from serve import ray_app

    with pytest.raises(ValueError, match=reason):
        ray_app.app(arguments)


def test_the_server_needs_no_ray():
    code = "import sys, serve.__main__, serve.app, serve.workers, serve.stores; assert 'ray' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
