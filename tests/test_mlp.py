r"""The finite network: its order of parameters, its Jacobian, the factored kernel and the prior's groups."""

from __future__ import annotations

from typing import get_args

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit

import reference
from boggn.errors import ConfigurationError
from boggn.network import mlp
from boggn.network.spec import MLP, Activation

ACTIVATIONS = get_args(Activation)
HIDDEN = ((), (5,), (6, 4), (3, 4, 5))
NUMPY = {
    "relu": lambda u: np.maximum(u, 0),
    "elu": lambda u: np.where(u > 0, u, np.expm1(np.minimum(u, 0))),
    "tanh": np.tanh,
    "silu": lambda u: u * expit(u),
    "gelu": lambda u: 0.5 * u * (1 + np.tanh(np.sqrt(2 / np.pi) * (u + 0.044715 * u**3))),
    "softplus": lambda u: np.log1p(np.exp(u)),
    "sin": np.sin,
}
WIDTH, ROWS = 4, 9


@pytest.fixture(autouse=True)
def _float64():
    with jax.enable_x64(True):
        yield


def network(hidden=(6, 4), activation="tanh", seed=0):
    spec = MLP(hidden, activation)
    rng = np.random.default_rng(seed)
    theta = jnp.asarray(rng.normal(size=mlp.n_parameters(spec, WIDTH)))
    return spec, theta, jnp.asarray(rng.uniform(-1, 1, (ROWS, WIDTH)))


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("hidden", HIDDEN)
def test_output_matches_the_reference(hidden, activation):
    spec, theta, x = network(hidden, activation)
    expected = reference.mlp_logit(np.asarray(theta), np.asarray(x), hidden, NUMPY[activation])
    params = mlp.unravel(spec, theta, WIDTH)
    np.testing.assert_allclose(mlp.logit(spec, params, x), expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(mlp.factors(spec, params, x).latent, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("hidden", HIDDEN)
def test_jacobian_matches_autodiff(hidden, activation):
    spec, theta, x = network(hidden, activation)

    def one(theta, row):
        return mlp.logit(spec, mlp.unravel(spec, theta, WIDTH), row[None])[0]

    expected = jax.vmap(jax.grad(one), in_axes=(None, 0))(theta, x)
    np.testing.assert_allclose(mlp.jacobian(spec, mlp.unravel(spec, theta, WIDTH), x), expected, atol=1e-12)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_type_follows_the_inputs(dtype):
    spec, _, x = network()
    params = mlp.init(spec, jax.random.key(0), WIDTH, dtype)
    found = mlp.factors(spec, params, x.astype(dtype))
    for leaf in jax.tree.leaves((params, found, mlp.jacobian(spec, params, x.astype(dtype)))):
        assert leaf.dtype == dtype


@pytest.mark.parametrize("hidden", HIDDEN)
def test_ravel_undoes_unravel_in_the_documented_order(hidden):
    spec, theta, _ = network(hidden)
    params = mlp.unravel(spec, theta, WIDTH)
    np.testing.assert_array_equal(mlp.ravel(params), theta)
    for (weights, bias), part in zip(params, mlp.layers(spec, WIDTH), strict=True):
        np.testing.assert_array_equal(theta[part], np.concatenate([np.ravel(weights), bias]))
    assert mlp.layers(spec, WIDTH)[-1].stop == mlp.n_parameters(spec, WIDTH)


def test_init_keeps_the_size_of_a_signal():
    spec = MLP((256, 256), "relu")
    params = mlp.init(spec, jax.random.key(1), 64, jnp.float64)
    x = jax.random.normal(jax.random.key(2), (500, 64))
    assert 0.3 < float(jnp.std(mlp.logit(spec, params, x))) < 3.0
    assert all(not np.any(bias) for _, bias in params)


def row_constant(spec, seed=3):
    """A random variance per row, and the same per parameter."""
    rng = np.random.default_rng(seed)
    rows = [rng.uniform(0.2, 2.0, inputs + 1) for inputs, _ in mlp.shapes(spec, WIDTH)]
    outputs = [outputs for _, outputs in mlp.shapes(spec, WIDTH)]
    return rows, np.concatenate([np.repeat(row, count) for row, count in zip(rows, outputs, strict=True)])


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("hidden", HIDDEN)
def test_factored_products_equal_dense_ones(hidden, activation):
    spec, theta, x = network(hidden, activation)
    params = mlp.unravel(spec, theta, WIDTH)
    J, rows, left = mlp.jacobian(spec, params, x), mlp.factors(spec, params, x), mlp.factors(spec, params, x[:4])
    variance, flat = row_constant(spec)
    expected = (J * flat) @ J.T
    np.testing.assert_allclose(mlp.kernel(left, rows, variance), expected[:4], rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(mlp.kernel_diagonal(rows, variance), jnp.diag(expected), rtol=1e-10)
    rng = np.random.default_rng(4)
    direction, dual = jnp.asarray(rng.normal(size=flat.size)), jnp.asarray(rng.normal(size=ROWS))
    np.testing.assert_allclose(mlp.push(rows, direction), J @ direction, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(mlp.pull(rows, dual), J.T @ dual, rtol=1e-10, atol=1e-10)
    for values, row in zip(mlp.rows_of(spec, WIDTH, flat), variance, strict=True):
        np.testing.assert_array_equal(values, row)


@pytest.mark.parametrize("structure", ["global", "layer", "input"])
@pytest.mark.parametrize("hidden", HIDDEN)
def test_group_kernels_add_up(hidden, structure):
    spec, theta, x = network(hidden)
    groups = mlp.prior_groups(spec, WIDTH, structure, (0, 0, 1))
    params = mlp.unravel(spec, theta, WIDTH)
    J = np.asarray(mlp.jacobian(spec, params, x))
    rows = tuple(tuple(part.tolist()) for part in mlp.rows_of(spec, WIDTH, groups))
    kernels = mlp.group_kernels(mlp.factors(spec, params, x), rows)
    assert sorted(set(groups.tolist())) == list(range(kernels.shape[0]))
    for group, found in enumerate(kernels):
        part = J[:, groups == group]
        np.testing.assert_allclose(found, part @ part.T, rtol=1e-10, atol=1e-10)


def test_input_groups_follow_the_original_parameters():
    """Two columns of parameter 0, one of parameter 1, one of padding."""
    groups = mlp.prior_groups(MLP((3, 2)), WIDTH, "input", (0, 0, 1))
    assert groups.tolist() == [0] * 6 + [1] * 3 + [2] * 3 + [2] * 3 + [3] * 8 + [4] * 3
    assert mlp.prior_groups(MLP((3, 2)), WIDTH, "layer", (0, 0, 1)).tolist() == [0] * 15 + [1] * 8 + [2] * 3
    assert set(mlp.prior_groups(MLP((3, 2)), WIDTH, "global", ()).tolist()) == {0}


def test_an_unknown_prior_structure_is_refused():
    with pytest.raises(ConfigurationError, match="global, layer, input"):
        mlp.prior_groups(MLP(), WIDTH, "unit", (0,))


def test_a_precision_that_varies_along_a_row_is_refused():
    spec, theta, _ = network()
    mlp.check_rows(spec, WIDTH, row_constant(spec)[1])
    with pytest.raises(ConfigurationError, match="layer 0"):
        mlp.check_rows(spec, WIDTH, jnp.exp(theta))
