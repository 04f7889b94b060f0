"""A job without a framework: reads its data, and counts up to a limit in a file of its checkpoint directory.

    plain_training.py STEPS STEP_SECS OUTPUT_BYTES
"""

import os
import sys
import time
from pathlib import Path

folder = os.environ.get("SM_CHANNEL_TRAIN", "")
files = [path for path in sorted(Path(folder).rglob("*")) if path.is_file()] if folder else []
place = Path(os.environ["SM_CHECKPOINT_DIR"], "count")
count = int(place.read_text()) if place.exists() else 0
while count < int(sys.argv[1]):
    if files:
        files[count % len(files)].read_bytes()
    time.sleep(float(sys.argv[2]))
    count += 1
    part = place.with_name(".part")
    part.write_text(str(count))
    part.replace(place)
Path(os.environ["SM_MODEL_DIR"], "rest.bin").write_bytes(bytes(int(sys.argv[3])))
