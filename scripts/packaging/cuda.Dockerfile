# The image for NVIDIA GPUs, from uv.lock: docker build -f scripts/packaging/cuda.Dockerfile -t openended:cuda .
#   docker run --rm --gpus all -v "$PWD:/work" -v "$HOME/.cache/huggingface:/hub" openended:cuda model.path=gpt2-xl …
FROM python:3.11-slim-bookworm
# torch's wheels bring the CUDA libraries; the host has the driver and the NVIDIA Container Toolkit.
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility \
    UV_PROJECT_ENVIRONMENT=/opt/openended UV_LINK_MODE=copy UV_PYTHON_DOWNLOADS=never PATH=/opt/openended/bin:$PATH HF_HOME=/hub
WORKDIR /src
COPY . .
RUN pip install --no-cache-dir uv==0.13.9 \
    && uv sync --frozen --no-editable --no-cache --extra all \
    && useradd --create-home --uid 1000 researcher \
    && install -d -o researcher /hub
USER 1000
WORKDIR /work
ENTRYPOINT ["openended"]
CMD ["--help"]
