"""What a server is told, whoever starts it."""

from typing import Annotated

import msgspec

Positive = Annotated[float, msgspec.Meta(gt=0)]
Count = Annotated[int, msgspec.Meta(ge=1)]


class AppSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the application is told, be it served by `python -m serve` or by Ray Serve."""

    zoo: str | None = None
    """Directory, or `hf://user/name@revision`; on Ray every node has it, or every replica downloads it for itself."""
    agents: list[str] | None = None
    """To serve; every one of the zoo if absent."""
    store: str = "memory"
    """`redis://...` where machines share sessions, `sqlite:///FILE` where the processes of one do."""
    max_sessions: Count = 10_000
    """Open at once, in all processes."""
    ttl_seconds: Positive = 3600.0
    """How long an idle session is kept at most."""
    max_age_seconds: Positive = 86_400.0
    """How long any session is kept."""
    max_body_bytes: Count = 1 << 20
    """Of a request, or of a message over a stream."""
    api_keys: str | None = None
    """File (on Ray on every node); every request must then bear one of its keys."""
    cors_origins: list[str] = []
    """Of pages that may connect, beside the server's own."""
    access_log: bool = False
    """A JSON line per answer, to standard error; on Ray in the replicas' log files."""


class Settings(AppSettings, frozen=True, kw_only=True):
    """What a process that serves is told."""

    workers: Count = 1
    root_path: str = ""
    """Path under which clients see the server, behind a proxy."""
    forwarded_allow_ips: list[str] | None = None
    """Addresses of proxies whose X-Forwarded-For, -Proto and -Prefix count; None to look at none of them."""
    request_seconds: Positive = 30.0
    """In which a request must have arrived, headers and body."""
    grpc_address: str | None = None
    """Host and port, where agents are served over gRPC too."""
    counts: str | None = None
    """Directory where several processes leave what they have counted."""
