localrules:
    all,
    experiment,


rule experiment:
    message:
        "Gathering results/experiments/{wildcards.experiment}"
    input:
        lambda wildcards: [f"results/{ref}/manifest.json" for ref in rules_of.view(wildcards.experiment).nodes],
    output:
        "results/experiments/{experiment}/experiment.json",
    params:
        spec=lambda wildcards: rules_of.view(wildcards.experiment).spec_text,
    shell:
        "exec smelt view --spec {params.spec:q} --out {output:q}"
