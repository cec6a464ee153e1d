"""The protocol's messages and services, made of their description.

`services.binpb` is what protoc makes of the `.proto` files (CONTRIBUTING.md has the command). The classes are made of
it when the server starts: code that protoc generates would run with some versions of protobuf alone. They are in a pool
of their own, so that a process may have a client's classes of the same names beside them.
"""

from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

COMPILED = Path(__file__).with_name("services.binpb")
SERVICE = "inference.GRPCInferenceService"
HEALTH = "grpc.health.v1.Health"


def _pool() -> descriptor_pool.DescriptorPool:
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(COMPILED.read_bytes()).file:
        pool.AddSerializedFile(file.SerializeToString())
    return pool


POOL = _pool()


def message(name: str) -> Any:
    """Return the class of a message, as `message("inference.ModelInferRequest")`."""
    return message_factory.GetMessageClass(POOL.FindMessageTypeByName(name))


def methods(service: str) -> Any:
    """Return the descriptors of a service's methods."""
    return POOL.FindServiceByName(service).methods
