rule convert:
    message:
        "Converting {wildcards.id} to a Hugging Face directory"
    input:
        upstream("convert"),
    output:
        manifest=node("convert", "manifest.json"),
    params:
        spec=spec("convert"),
    log:
        node("convert", "log.txt"),
    benchmark:
        node("convert", "benchmark.jsonl")
    threads: need("convert", "threads")
    resources:
        mem_mb=need("convert", "memory"),
        runtime=need("convert", "minutes"),
    shell:
        "exec smelt convert --spec {params.spec:q} --out {output.manifest:q} --log {log:q} --threads {threads}"
