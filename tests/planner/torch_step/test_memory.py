# SPDX-License-Identifier: Apache-2.0
"""`compile` passes, and a plan trains, where an eager step does not fit into the memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import poet_planner as poet
import pytest
import torch
from poet_planner.torch_step import compiling
from poet_profiles.errors import UserError
from poet_runtime.peak import allocations
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from tests.planner.torch_step.networks import Batch, tiny

SCRIPT = """
import resource, sys
from pathlib import Path
import torch
from tests.planner.torch_step.test_memory import Gates, batch_of, cross_entropy, poet
torch.set_num_threads(1)
net = Gates()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
x, y = batch_of(8)
cross_entropy(net(x[:1]), y[:1]).backward(), optimizer.step(), optimizer.zero_grad()
data = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmData"))
resource.setrlimit(resource.RLIMIT_DATA, ((data << 10) + (128 << 20),) * 2)
options = poet.OptimiseOptions(time_limit_s=1.0, capped=False)
step = sys.argv[1] == "poet" and poet.compile(net, cross_entropy, (x, y), ram="30%", options=options)
for _ in range(2):
    step(x, y) if step else cross_entropy(net(x), y).backward()
    optimizer.step(), optimizer.zero_grad()
print("trains")
"""


class Gates(nn.Module):
    """Quick operators, and much that they save: 19 MB a sample."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.fc = nn.Conv2d(3, 16, 1), nn.Linear(16, 10)
        self.scales = nn.ParameterList(nn.Parameter(torch.ones(16, 1, 1)) for _ in range(16))

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for scale in self.scales:
            x = torch.sigmoid(x * scale)
        return self.fc(x.mean((2, 3)))  # type: ignore[no-any-return]


def batch_of(samples: int) -> Batch:
    return torch.randn(samples, 3, 128, 128), torch.arange(samples) % 10


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no Linux")
def test_it_compiles_and_trains_where_an_eager_step_runs_out_of_memory(tmp_path: Path) -> None:
    code = f"from poet_runtime.allocator import release_freed\nrelease_freed(1 << 16)\n{SCRIPT}"
    runs = {
        way: subprocess.run([sys.executable, "-c", code, way], capture_output=True, text=True, check=False)
        for way in ("eager", "poet")
    }
    assert "can't allocate memory" in runs["eager"].stderr
    assert runs["poet"].stdout == "trains\n", runs["poet"].stderr


def test_no_run_takes_more_than_the_budget_and_an_operator() -> None:
    """By the allocator: `compile`, a retrace, a new shape; a scale's gradient needs 4 pictures."""
    net, (x, y) = Gates(), batch_of(2)
    picture = 2 * 16 * 128 * 128 * 4
    options = poet.OptimiseOptions(time_limit_s=1.0, capped=False)
    with allocations() as peak:
        step = poet.compile(net, cross_entropy, (x, y), ram="40%", options=options, quiet=True)
    budget = step.report.budget_bytes
    assert budget is not None and peak.bytes <= budget + 4 * picture < step.report.plain_peak_bytes
    net.first.stride = (2, 2)
    with allocations() as peak:
        step(x, y)
    assert step.report.retraced == 1 and peak.bytes <= budget + 4 * picture
    with allocations() as peak:
        step(x[:1], y[:1])
    assert peak.bytes <= budget + 2 * picture


def test_a_lack_of_memory_is_nobodys_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    class Large(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) + torch.empty(1 << 50).sum()

    words = "^Large: memory has run out .*can't allocate memory"
    with pytest.raises(UserError, match=words) as refusal:
        poet.compile(Large(4, 3), cross_entropy, (torch.randn(2, 4), torch.tensor([0, 1])), quiet=True)
    assert "raised" not in str(refusal.value) and "\n" not in str(refusal.value)
    module, batch = tiny()

    def none(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(compiling, "measured", none)
    with pytest.raises(UserError, match=r"^Tiny: memory has run out \(MemoryError\)"):
        poet.compile(module, cross_entropy, batch, quiet=True)
