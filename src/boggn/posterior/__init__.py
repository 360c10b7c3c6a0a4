"""Gaussian posteriors of the latent: each answers `moments`, `sample` and `log_evidence`."""
