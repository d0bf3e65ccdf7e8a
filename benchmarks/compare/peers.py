"""All peers, in the order of the tables."""

from benchmarks.compare.peer import Peer
from benchmarks.compare.with_elfi import BOLFI
from benchmarks.compare.with_likelihood import Likelihood
from benchmarks.compare.with_owlfi import Bootstrap, MinimumDistance
from benchmarks.compare.with_pyabc import SMC
from benchmarks.compare.with_sbi import NLE, NPE

PEERS: tuple[Peer, ...] = (
    Likelihood(),
    Likelihood(inliers=True),
    MinimumDistance("efficient"),
    MinimumDistance("efficient", black_box=True),
    MinimumDistance("mmd"),
    Bootstrap(),
    NPE(),
    NLE(),
    SMC(),
    BOLFI(),
)
