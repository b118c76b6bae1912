"""Images of 224x224x3 bytes from two worker processes: how many a second?

The dataset does no work, so this is what handing over costs. The reference is a bare
ring in shared memory: two processes copy images into its slots, semaphores say which
are free and which are full, and who reads only counts. Like it is "to the ring": of
each image that arrives eight by eight pixels are drawn. "To batches" draws it whole, a
second copy, and is compared with what delivers the same: DataLoader's workers, which
stack a batch and then put it into shared memory. Expected before it was measured: 0.8
of the bare ring; 20 times `torch.multiprocessing.Queue`, which makes a file of each
image and sends its descriptor over a socket; to batches 3 times DataLoader's workers.
"""

from echobuf.cli.bench import Candidate, Question
from running import make_parser, run
from sampling import HERE, RESULTS

TARGET = "peers.worker_processes:"

QUESTION = Question(
    name="workers",
    unit="image",
    candidates=(
        Candidate("bare ring, semaphores", TARGET + "BareRing"),
        Candidate("echobuf, to the ring", TARGET + "EchobufToTheRing"),
        Candidate(
            "echobuf, to batches",
            TARGET + "Echobuf",
            reference="DataLoader, 2 workers",
        ),
        Candidate(
            "torch.multiprocessing.Queue", TARGET + "TorchQueue", {"images": 512}
        ),
        Candidate("DataLoader, 2 workers", TARGET + "Workers"),
    ),
    reference="bare ring, semaphores",
    settings={"images": 4096, "workers": 2, "window": 512, "batch": 128},
    path=(HERE,),
)

if __name__ == "__main__":
    run(QUESTION, make_parser(__doc__, RESULTS).parse_args())
