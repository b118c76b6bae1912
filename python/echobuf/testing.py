"""For tests on machines without a GPU: a simulated CUDA driver."""

from echobuf.cuda.simulation import Simulation, SimulationError, simulated_cuda

__all__ = ["Simulation", "SimulationError", "simulated_cuda"]
