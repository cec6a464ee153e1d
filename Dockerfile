# A slim image of the server with the zoo: no Keras, no TensorFlow.
#   docker build --tag nmn-serve .
#   docker run --rm --publish 127.0.0.1:8000:8000 nmn-serve
#   docker run --rm --publish 127.0.0.1:8000:8000 --volume sessions:/data nmn-serve --store sqlite:////data/sessions.db
FROM python:3.11-slim AS build
COPY . /source
RUN python -m pip wheel --no-deps --wheel-dir /wheels /source

FROM python:3.11-slim
COPY serve/requirements.lock /tmp/requirements.lock
RUN python -m pip install --no-cache-dir --requirement /tmp/requirements.lock
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    python -m pip install --no-cache-dir --no-deps /wheels/*.whl
RUN useradd --uid 10001 --create-home serve && install --directory --owner=serve /data
USER serve
WORKDIR /home/serve
EXPOSE 8000
# 8001 with --grpc-port 8001
# SIGTERM ends it within 8 seconds; Docker waits for 10.
HEALTHCHECK CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8000/health/ready')"]
ENTRYPOINT ["python", "-m", "serve", "--host", "0.0.0.0"]
