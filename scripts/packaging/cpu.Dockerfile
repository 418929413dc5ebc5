# The image without a GPU: docker build -f scripts/packaging/cpu.Dockerfile -t openended .
#   docker run --rm -v "$PWD:/work" openended score greedy.jsonl --human human.jsonl
FROM python:3.11-slim-bookworm
WORKDIR /src
COPY . .
# PyPI's torch brings 6 GB of CUDA libraries; this index has the build without them.
RUN pip install --no-cache-dir --index-url https://download.pytorch.org/whl/cpu \
      "$(grep '^torch==' constraints.txt)" \
    && pip install --no-cache-dir -c constraints.txt '.[local,faiss,hub,servers,search,rate]' \
    && useradd --create-home --uid 1000 researcher
USER 1000
WORKDIR /work
ENTRYPOINT ["openended"]
CMD ["--help"]
