r"""The paper once more, dense and slow, in NumPy float64: what every fast path is compared with.

Nothing here is shared with the library but the notation of PAPER.md: f or g (latent), Lambda (curvature), J, S_0,
H, K. Formulas are written out, inverses are taken, matrices are formed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import integrate
from scipy.stats import logistic, norm

Floats = NDArray[np.float64]
LINKS = {"logit": logistic, "probit": norm}


# ------------------------------------------------------------------------------------------ likelihoods (section 3)


def one_threshold(link: str, latent: Floats, z: Floats, weight: Floats) -> Floats:
    """w_n [z_n log F(f_n) + (1 - z_n) log F(-f_n)]."""
    F = LINKS[link]
    return weight * np.where(z > 0.5, F.logcdf(latent), F.logcdf(-latent))


def one_threshold_gradient(link: str, latent: Floats, z: Floats, weight: Floats) -> Floats:
    """w_n (z_n - F) F' / (F (1 - F)), which is w_n (z_n - F) for the logit."""
    F = LINKS[link]
    return weight * (z - F.cdf(latent)) * F.pdf(latent) / (F.cdf(latent) * F.sf(latent))


def one_threshold_curvature(link: str, latent: Floats, z: Floats, weight: Floats) -> Floats:
    """w F (1 - F) for the logit; w h (h + s f) with s = +-1 and h = F'(f) / F(s f) for the probit."""
    F = LINKS[link]
    if link == "logit":
        return weight * F.cdf(latent) * F.sf(latent)
    sign = 2 * z - 1
    hazard = F.pdf(latent) / F.cdf(sign * latent)
    return weight * hazard * (hazard + sign * latent)


def all_thresholds(link: str, latent: Floats, target: Floats, scale: float, weight: Floats) -> Floats:
    """w_n log density of T_n = g_n + s e, e distributed as the link."""
    return weight * LINKS[link].logpdf(target, loc=latent, scale=scale)


def all_thresholds_gradient(link: str, latent: Floats, target: Floats, scale: float, weight: Floats) -> Floats:
    """w (2 F(r) - 1) / s for the logit, w r / s for the probit, r = (T - g) / s."""
    r = (target - latent) / scale
    return weight * (r if link == "probit" else 2 * logistic.cdf(r) - 1) / scale


def all_thresholds_curvature(link: str, latent: Floats, target: Floats, scale: float, weight: Floats) -> Floats:
    """w 2 F'(r) / s^2 for the logit, w / s^2 for the probit."""
    r = (target - latent) / scale
    return weight * (np.ones_like(r) if link == "probit" else 2 * logistic.pdf(r)) / scale**2


def _density_slope(link: str, r: Floats) -> Floats:
    """F'' of the link, zero at infinity."""
    r = np.clip(r, -1e3, 1e3)
    return -r * norm.pdf(r) if link == "probit" else logistic.pdf(r) * (1 - 2 * logistic.cdf(r))


def several_thresholds(link: str, latent: Floats, lower: Floats, upper: Floats, scale: float, weight: Floats) -> Floats:
    """w_n log P(lower < T_n <= upper), T_n = g_n + s e; from the side on which less is cut off."""
    F, a, b = LINKS[link], (lower - latent) / scale, (upper - latent) / scale
    with np.errstate(divide="ignore", invalid="ignore"):  # the side not taken may be log 0
        return weight * np.where(a > 0, np.log(F.sf(a) - F.sf(b)), np.log(F.cdf(b) - F.cdf(a)))


def several_thresholds_gradient(
    link: str, latent: Floats, lower: Floats, upper: Floats, scale: float, weight: Floats
) -> Floats:
    """w (F'(a) - F'(b)) / (F(b) - F(a)) / s."""
    F, a, b = LINKS[link], (lower - latent) / scale, (upper - latent) / scale
    return weight * (F.pdf(a) - F.pdf(b)) / (F.cdf(b) - F.cdf(a)) / scale


def several_thresholds_curvature(
    link: str, latent: Floats, lower: Floats, upper: Floats, scale: float, weight: Floats
) -> Floats:
    """w [((F'(b) - F'(a)) / (F(b) - F(a)))^2 - (F''(b) - F''(a)) / (F(b) - F(a))] / s^2."""
    F, a, b = LINKS[link], (lower - latent) / scale, (upper - latent) / scale
    mass = F.cdf(b) - F.cdf(a)
    slope, bend = (F.pdf(b) - F.pdf(a)) / mass, (_density_slope(link, b) - _density_slope(link, a)) / mass
    return weight * (slope**2 - bend) / scale**2


# --------------------------------------------------------------------------------------------- network (section 3)


def mlp_logit(theta: Floats, x: Floats, hidden: tuple[int, ...], activation) -> Floats:
    """f(x; theta): per layer the weights, one input's together, then the biases."""
    signal, start = x, 0
    for layer, outputs in enumerate((*hidden, 1)):
        inputs = signal.shape[1]
        W = theta[start : start + inputs * outputs].reshape(inputs, outputs)
        b = theta[start + inputs * outputs : start + (inputs + 1) * outputs]
        start += (inputs + 1) * outputs
        signal = signal @ W + b
        if layer < len(hidden):
            signal = activation(signal)
    assert start == theta.size
    return signal[:, 0]


# ------------------------------------------------------------------------------------- Laplace-GGN (sections 4 to 6)


def ggn_precision(J: Floats, Lambda: Floats, prior_precision: Floats) -> Floats:
    """H = J' Lambda J + S_0^-1."""
    return J.T @ np.diag(Lambda) @ J + np.diag(prior_precision)


def log_evidence(log_likelihood: float, theta_map: Floats, prior_precision: Floats, H: Floats, grad=None) -> float:
    """log p(D | theta_map) + log p(theta_map) + (P/2) log 2 pi - 1/2 log det H [+ 1/2 grad' H^-1 grad]."""
    log_prior = np.sum(norm.logpdf(theta_map, scale=prior_precision**-0.5))
    value = log_likelihood + log_prior + 0.5 * theta_map.size * np.log(2 * np.pi) - 0.5 * np.linalg.slogdet(H)[1]
    return value if grad is None else value + 0.5 * grad @ np.linalg.solve(H, grad)


def weight_space_covariance(J_star: Floats, H: Floats) -> Floats:
    """J_* H^-1 J_*'."""
    return J_star @ np.linalg.inv(H) @ J_star.T


def function_space_covariance(J_star: Floats, J: Floats, Lambda: Floats, prior_precision: Floats) -> Floats:
    """K_** - K_*N (K_NN + Lambda^-1)^-1 K_N*; observations of no weight are left out."""
    S0, counts = np.diag(1 / prior_precision), Lambda > 0
    J, Lambda = J[counts], Lambda[counts]
    K, cross, own = J @ S0 @ J.T, J_star @ S0 @ J.T, J_star @ S0 @ J_star.T
    return own - cross @ np.linalg.inv(K + np.diag(1 / Lambda)) @ cross.T


def diagonal_covariance(J: Floats, Lambda: Floats, prior_precision: Floats) -> Floats:
    """The inverse of the diagonal of H."""
    return np.diag(1 / np.diag(ggn_precision(J, Lambda, prior_precision)))


def last_layer_covariance(J: Floats, Lambda: Floats, prior_precision: Floats, size: int) -> Floats:
    """The inverse of the block of H that belongs to the last `size` parameters."""
    covariance = np.zeros_like(np.diag(prior_precision))
    covariance[-size:, -size:] = np.linalg.inv(ggn_precision(J[:, -size:], Lambda, prior_precision[-size:]))
    return covariance


def kronecker_covariance(J: Floats, Lambda: Floats, prior_precision: Floats, sizes: list[tuple[int, int]]) -> Floats:
    """Per layer the inverse of A (x) B + S_0^-1, A the curvature-weighted mean of a a', B the weighted sum of d d'.

    J_n of a layer is a_n (x) d_n, and a_n ends with a one for the biases: so the last row of the block is d_n.
    """
    covariance, start = np.zeros_like(np.diag(prior_precision)), 0
    for inputs, outputs in sizes:
        part = slice(start, start + (inputs + 1) * outputs)
        A, B = np.zeros((inputs + 1,) * 2), np.zeros((outputs,) * 2)
        for row, curvature in zip(J[:, part].reshape(len(J), inputs + 1, outputs), Lambda, strict=True):
            d = row[-1]
            a = row @ d / (d @ d)
            A += curvature / Lambda.sum() * np.outer(a, a)
            B += curvature * np.outer(d, d)
        covariance[part, part] = np.linalg.inv(np.kron(A, B) + np.diag(prior_precision[part]))
        start = part.stop
    return covariance


def most_telling(J: Floats, Lambda: Floats, prior_precision: Floats, size: int) -> list[int]:
    """Rows chosen one after another, each for the largest log det H with the rows before it."""
    chosen: list[int] = []
    for _ in range(size):
        rest = [row for row in range(len(J)) if row not in chosen]

        def told(row: int) -> float:
            rows = [*chosen, row]
            return np.linalg.slogdet(ggn_precision(J[rows], Lambda[rows], prior_precision))[1]

        chosen.append(max(rest, key=told))
    return chosen


def gaussian_evidence(K: Floats, mean: Floats, target: Floats, noise: float) -> float:
    """log N(T; m_0, K + s^2 I): all thresholds with the normal link, in closed form."""
    C = K + noise**2 * np.eye(len(target))
    r = target - mean
    return -0.5 * r @ np.linalg.solve(C, r) - 0.5 * np.linalg.slogdet(2 * np.pi * C)[1]


# ------------------------------------------------------------------------------------- predictive (section 4, end)


def probit_predictive(mean: Floats, variance: Floats) -> Floats:
    """sigmoid(m / sqrt(1 + pi v / 8))."""
    return logistic.cdf(mean / np.sqrt(1 + np.pi * variance / 8))


def quadrature_predictive(link: str, mean: float, variance: float) -> float:
    """E[F(f)], f ~ N(m, v), by adaptive quadrature."""
    sd = np.sqrt(variance)

    def integrand(u: float) -> float:
        return LINKS[link].cdf(mean + sd * u) * norm.pdf(u)

    return integrate.quad(integrand, -12, 12, points=[0.0], epsabs=1e-12, limit=400)[0]


# ---------------------------------------------------------------------------------- wide network (ENGINE.md, 3)


def matern52_ard(left: Floats, right: Floats, lengths: Floats, amplitude: float) -> Floats:
    """a (1 + q + q^2 / 3) exp(-q), q = sqrt(5) r, r^2 = sum_j ((x_j - x'_j) / l_j)^2."""
    difference = (left[:, None, :] - right[None, :, :]) / lengths
    q = np.sqrt(5 * np.sum(difference**2, axis=-1))
    return amplitude * (1 + q + q**2 / 3) * np.exp(-q)
