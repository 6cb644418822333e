rule shards:
    message:
        "Tokenising into shards {wildcards.id}"
    input:
        upstream("shards"),
    output:
        manifest=node("shards", "manifest.json"),
    params:
        spec=spec("shards"),
    log:
        node("shards", "log.txt"),
    benchmark:
        node("shards", "benchmark.jsonl")
    threads: need("shards", "threads")
    resources:
        mem_mb=need("shards", "memory"),
        runtime=need("shards", "minutes"),
    shell:
        "exec smelt shards --spec {params.spec:q} --out {output.manifest:q} --log {log:q} --threads {threads}"
