rule archive:
    message:
        "Packing archive {wildcards.id}"
    input:
        upstream("archive"),
    output:
        manifest=node("archive", "manifest.json"),
    params:
        spec=spec("archive"),
    log:
        node("archive", "log.txt"),
    benchmark:
        node("archive", "benchmark.jsonl")
    threads: need("archive", "threads")
    resources:
        mem_mb=need("archive", "memory"),
        runtime=need("archive", "minutes"),
    shell:
        "exec smelt archive --spec {params.spec:q} --out {output.manifest:q} --log {log:q} --threads {threads}"
