rule corpus:
    message:
        "Making corpus {wildcards.id}"
    output:
        manifest=node("corpus", "manifest.json"),
    params:
        spec=spec("corpus"),
    log:
        node("corpus", "log.txt"),
    benchmark:
        node("corpus", "benchmark.jsonl")
    threads: need("corpus", "threads")
    resources:
        mem_mb=need("corpus", "memory"),
        runtime=need("corpus", "minutes"),
    shell:
        "exec smelt corpus --spec {params.spec:q} --out {output.manifest:q} --log {log:q} --threads {threads}"
