"""Large records: batches of 256 images 224x224x3 uint8, drawn from 8,192 (1.2 GB).

The yardstick is a plain copy of the same bytes by one thread, into memory that is warm:
`numpy.copyto` of 256 consecutive images.
"""

from echobuf.cli.bench import Question
from echobuf.cli.bench.options import make_parser, run
from sampling import HERE, RESULTS, plain, replay

QUESTION = Question(
    "image_batches",
    "batch",
    (*plain(), *replay()),
    reference="plain copy",
    settings={
        "fields": {"image": [[224, 224, 3], "uint8"]},
        "key": "image",
        "records": 8192,
        "batch": 256,
        "batches": 16,
        "chunks": 1,
    },
    path=(HERE,),
    resident=3,  # each holds 1.2 GB twice: the source, and its own store
    timeout_s=300,
)

if __name__ == "__main__":
    run(QUESTION, make_parser(__doc__, RESULTS).parse_args())
