"""One preparation for several training jobs on a machine (coordinated prep of CoorDL).

Mohan et al. 2020, arXiv:2007.06775: a server runs upstream once, and every job gets
every fresh example from the same memory. See docs/serve.md.
"""

from echobuf.serve.attached import Attached
from echobuf.serve.client import names, status
from echobuf.serve.protocol import Job, Status
from echobuf.serve.server import Server

__all__ = ["Attached", "Job", "Server", "Status", "attach", "names", "status"]

attach = Attached
