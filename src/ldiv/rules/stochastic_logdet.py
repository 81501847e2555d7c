"""l = mean of z_i^H log(S(p)) z_i, an estimate of log det S(p) for a positive definite S(p).

tangent      dl = mean of Re z_i^H S^-1 dS z_i
cotangent    p_bar = l_bar / k sum_i dS^*[S^-1 z_i z_i^H]
             both are estimates by the same probes, unbiased as l is, for E z z^H = I: of
             Re tr(S^-1 dS), and not derivatives of l, unless the z_i z_i^H add up to k I
cost         `steps` products with k columns forward, one iteration for k columns backward;
             nothing is factored
reference    Ubaru, Chen, Saad, SIAM J. Matrix Anal. Appl. 38 (2017); Hutchinson, Comm. Statist.
             Simula. 19 (1990)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ldiv.core.arrays.shapes import (
    astype,
    batch_of,
    broadcast,
    conj,
    factors,
    real,
    result_dtype,
    spread,
)
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import check_or_raise, namespace
from ldiv.core.frameworks.trees import Arrays, Cotangents, Tangents, Tree, Trees, leaves
from ldiv.core.rules.finite import require_finite
from ldiv.core.rules.rule import Rule, Traits, Unit
from ldiv.core.rules.structure import Structure, outer, push
from ldiv.core.rules.units import of_matrix
from ldiv.engines.factors.factorize import batch_axes
from ldiv.engines.functions.log_quadrature import log_quadrature
from ldiv.engines.iterative.matrix_product import assembled, require_hermitian
from ldiv.errors import ConvergenceError
from ldiv.rules.solve import solve

LEAST = 1e-3  # of each of the n eigenvalues' logarithms


@dataclass(frozen=True)
class StochasticLogDet(Rule):
    """Arguments p and z (n, k), constants; outputs l (*batch,), its samples and what the last
    quarter of the steps changed in them, (*batch, k).
    """

    structure: Structure
    steps: int

    traits = Traits(name="logdet", differentiable=(True, False, False))

    @property
    def core(self) -> Trees:
        return (self.structure.core, 2)

    @property
    def units(self) -> tuple[Unit, ...]:
        # log det t^2 A = log det A + 2 n log t, in each sample, too
        n = 2 * self.structure.shape[0]
        return of_matrix(self.structure, (0, 0, 0), 1, adds=(n, n, 0))

    def kernel(self, p: Tree, z: Array) -> Arrays:
        require_finite("A", *leaves(self.structure.read(p)))
        product, z = assembled(self.structure, p), astype(z, result_dtype(p, z))
        require_hermitian(self.structure, product, z)
        z = spread(z, broadcast(batch_axes(self.structure, p), batch_of(z, 2)))
        if 0 in z.shape:  # the determinant of no rows is 1
            samples = namespace(z).sum(real(z), axis=-2)
            return namespace(z).sum(samples, axis=-1), samples, samples + 0
        samples, changes = log_quadrature(product, z, self.steps)
        xp, n = namespace(samples), z.shape[-2]
        # what Lanczos has not found is to be less than what chance leaves open
        bias, chance = abs(xp.mean(changes, axis=-1)), xp.std(samples, axis=-1) / z.shape[-1] ** 0.5
        check_or_raise((bias <= chance + LEAST * n).all(), self._too_few_steps, xp.max(bias))
        return xp.mean(samples, axis=-1), samples, changes

    def _too_few_steps(self, bias: Any) -> ConvergenceError:
        what = f"the last quarter of them still changes the estimate by {float(bias):.1e}"
        causes = "(a) steps too small for the condition of A: double them, (b) a singular matrix."
        return ConvergenceError("slq", self.steps, None, 0.0, what, causes)

    def _solved(self, p: Tree, z: Array) -> Array:
        return solve(self.structure, p, z, "pos", "iterative")

    def jvp(self, tangents: Trees, out: Arrays, *args: Tree) -> Tangents:
        (p, z), (dp, _) = args, tangents
        moved = push(self.structure, p, dp, z)
        if moved is None:
            return None, None, None
        xp = namespace(moved)
        # Re z_i^H S^-1 dS z_i, with S^-1 on the left factor: S is Hermitian
        forms = real(xp.sum(conj(self._solved(p, z)) * moved, axis=-2))
        return xp.mean(forms, axis=-1), None, None

    def vjp(self, need: Trees, cotangents: Cotangents, out: Arrays, *args: Tree) -> Trees:
        (p, z), (l_bar, *_) = args, cotangents
        # p_bar = l_bar / k sum_i dS^*[S^-1 z_i z_i^H]
        weight = factors(l_bar) / z.shape[-1]
        return outer(self.structure, p, weight * self._solved(p, z), z, need[0]), None
