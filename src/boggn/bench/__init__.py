r"""Optimisers compared as a careful referee would: boggn and its peers, on tasks whose minimum is known.

    boggn bench run --tasks paper --methods boggn,tpe --seeds 10 --evals 100 --out runs.jsonl
    boggn bench report runs.jsonl --reference tpe

It uses boggn only through its public API, as any user would.
"""
