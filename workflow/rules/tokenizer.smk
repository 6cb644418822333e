rule tokenizer:
    message:
        "Training tokenizer {wildcards.id}"
    input:
        upstream("tokenizer"),
    output:
        manifest=node("tokenizer", "manifest.json"),
    params:
        spec=spec("tokenizer"),
    log:
        node("tokenizer", "log.txt"),
    benchmark:
        node("tokenizer", "benchmark.jsonl")
    threads: need("tokenizer", "threads")
    resources:
        mem_mb=need("tokenizer", "memory"),
        runtime=need("tokenizer", "minutes"),
    shell:
        "exec smelt tokenizer --spec {params.spec:q} --out {output.manifest:q} --log {log:q} --threads {threads}"
