"""For tests on machines without a GPU: a simulated CUDA driver."""

from echobuf.cuda.simulated_array import SimulatedArray
from echobuf.cuda.simulation import Simulation, SimulationError, simulated_cuda

__all__ = ["SimulatedArray", "Simulation", "SimulationError", "simulated_cuda"]
