"""The Open Inference Protocol over gRPC, beside the application over HTTP and over the same sessions.

Whatever of the server knows gRPC is in here, so that the rest runs without its package.
"""
