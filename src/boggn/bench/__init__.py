r"""A small regret benchmark: the paper's tasks, confirmation tasks nobody tunes on, boggn and its peers.

    python -m boggn.bench run --tasks paper --methods boggn,tpe --seeds 10 --evals 100 --out runs.jsonl
    python -m boggn.bench table runs.jsonl --reference tpe

It uses boggn only through its public API, as any user would.
"""
