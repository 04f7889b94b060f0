"""A training whose weights depend on every step, every byte of its data and its random state; its output is bytes.

    killed_training.py STEPS STEP_SECS OUTPUT_BYTES
"""

import hashlib
import os
import sys
import time
from pathlib import Path

import torch
from torch.utils.data import DataLoader, TensorDataset

steps, step_secs, output_bytes = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
batch = 8
seed = 0
if folder := os.environ.get("SM_CHANNEL_TRAIN"):
    for path in sorted(Path(folder).rglob("*")):
        if path.is_file():
            seed ^= int.from_bytes(hashlib.sha256(path.read_bytes()).digest()[:4], "big")
torch.manual_seed(seed)
model = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.ReLU(), torch.nn.Dropout(0.2), torch.nn.Linear(512, 10))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
data = TensorDataset(torch.randn(batch * 20, 64), torch.randint(0, 10, (batch * 20,)))
loader = DataLoader(data, batch_size=batch, shuffle=True)
times = os.environ.get("STEP_TIMES", "")
for _epoch in range(-(-steps // 20)):
    for inputs, labels in loader:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
        time.sleep(step_secs)
        if times:
            with open(times, "a") as file:
                file.write(f"{time.time()}\n")
output = Path(os.environ["SM_MODEL_DIR"])
(output / "weights.bin").write_bytes(b"".join(
    value.detach().numpy().tobytes() for value in [*model.state_dict().values(), torch.get_rng_state()]))
if output_bytes:
    (output / "rest.bin").write_bytes(bytes(output_bytes))
