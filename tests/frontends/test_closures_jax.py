"""Values that a user's function takes from elsewhere are no arguments: JAX would differentiate them
to zero, so that a traced one raises, and a constant is left alone.
"""

import pytest

import ldiv

jax = pytest.importorskip("jax")

N = 5
P, W = jax.numpy.ones(N), jax.numpy.arange(1.0, N + 1)


def operator(w):
    return ldiv.LinearOperator(lambda p, x: (p * w)[:, None] * x, P, shape=(N, N), assume_a="pos")


ENTRIES = {
    "solve": lambda w: ldiv.solve(operator(w), P),
    "cg": lambda w: ldiv.cg(operator(w), P)[0],
    "eigsh": lambda w: ldiv.eigsh(operator(w), 2)[0],
    "least_squares": lambda w: ldiv.least_squares(lambda x, p: x + p - w, 0 * P, P),
    "lobpcg": lambda w: ldiv.lobpcg(operator(w), jax.numpy.ones((N, 1)) + W[:, None])[0],
    "root": lambda w: ldiv.root(lambda x, p: x**2 - p * w, P, P),
    "implicit": lambda w: ldiv.implicit(lambda x, p: x**2 - p * w, W**0.5, P),
}
TRANSFORMS = {
    "grad": lambda f: jax.grad(lambda w: f(w).sum()),
    "jit of grad": lambda f: jax.jit(jax.grad(lambda w: f(w).sum())),
    "jit": jax.jit,
    "jvp": lambda f: lambda w: jax.jvp(f, (w,), (w,)),
    "vjp": lambda f: lambda w: jax.vjp(f, w)[1](w),
    "jacrev": jax.jacrev,
    "jacfwd": jax.jacfwd,
    "grad of grad": lambda f: jax.grad(lambda w: jax.grad(lambda w: f(w).sum())(w).sum()),
    "vmap of grad": lambda f: lambda w: jax.vmap(jax.grad(lambda w: f(w).sum()))(w[None]),
    "vmap": lambda f: lambda w: jax.vmap(f)(w[None]),
    "hessian": lambda f: jax.hessian(lambda w: f(w).sum()),
}


MORE = ("vjp", "jacrev", "jacfwd", "vmap of grad")  # which say what others say, too


@pytest.mark.parametrize(
    "transform",
    [pytest.param(t, marks=pytest.mark.exhaustive) if t in MORE else t for t in TRANSFORMS],
)
@pytest.mark.parametrize("entry", ENTRIES)
def test_what_is_traced_and_no_argument_is_refused(entry, transform):
    with pytest.raises(ValueError, match="`params`"):
        TRANSFORMS[transform](ENTRIES[entry])(W)


# loops take the longest to compile
@pytest.mark.parametrize(
    "entry",
    [
        pytest.param(entry, marks=pytest.mark.exhaustive if entry in ("lobpcg", "root") else ())
        for entry in ENTRIES
    ],
)
def test_a_constant_is_left_alone(entry):
    f = ENTRIES[entry]
    g = jax.jit(jax.grad(lambda w: (f(W) * w[0]).sum()))(W)
    assert jax.numpy.allclose(g[0], f(W).sum()) and not g[1:].any()
