"""Which memory each request of foreshard.collectives gets, and when NCCL serves a call; no GPU (fake_torch.py)."""

import unittest
from logging import INFO, WARNING

from fake_torch import FakeGroup, Stream, Tensor, WithTorch


class CommsTest(WithTorch):
    def gather(self):
        return self.comms.ForeshardAllGather(self.group, self.process_group, "NCCL's")

    def scatter(self, factor=None):
        return self.comms.ForeshardReduceScatter(self.group, self.process_group, "NCCL's", lambda: factor)

    def test_a_gather_runs_on_the_current_stream(self):
        comm = self.gather()
        output = comm.allocate((8,), dtype=self.torch.bfloat16, device="cuda:0")
        self.assertIsNone(comm(output_tensor=output, input_tensor=output, group=self.process_group, async_op=False))
        self.assertEqual(self.group.calls, [("gather", 7)])

    def test_async_and_the_default_stream_take_the_groups_own(self):
        comm = self.gather()
        output = comm.allocate((8,), dtype=self.torch.bfloat16, device="cuda:0")
        work = comm(output, output, self.process_group, async_op=True)
        self.assertEqual(self.group.calls, [("gather", 99)])
        self.assertEqual((self.group.stream.waits, self.current[0].waits), ([7], []))
        self.assertTrue(work.wait())
        self.assertEqual(self.current[0].waits, ["event of 99"])
        self.current[0] = Stream(0)
        self.assertIsNone(comm(output, output, self.process_group))
        self.assertEqual(self.current[0].waits, ["event of 99"])

    def test_nccl_serves_what_cannot_be_and_says_so_once(self):
        comm = self.gather()
        plain = Tensor((8,), self.torch.bfloat16)
        for _ in range(3):
            self.assertEqual(comm(plain, plain, self.process_group), "work")
        self.assertEqual(comm(comm.allocate((8,), dtype=self.torch.bfloat16, device=""), plain, object()), "work")
        self.gather()(plain, plain, self.process_group)  # another unit of the group
        self.assertEqual((self.nccl, self.group.calls), (["gather"] * 5, []))
        self.assertEqual(self.said(), [
            (WARNING, "NCCL serves an all-gather: its output is not in symmetric memory"),
            (WARNING, "NCCL serves an all-gather: its group is another one (reshard_after_forward to a smaller mesh)"),
        ])  # fmt: skip

    def test_other_ranks_say_it_as_information(self):
        self.group = FakeGroup(rank=1)
        plain = Tensor((8,), self.torch.bfloat16)
        self.gather()(plain, plain, self.process_group)
        self.assertEqual([level for level, _ in self.said()], [INFO])

    def reduce(self, comm, dtype, op="avg"):
        source = comm.allocate((8,), dtype=dtype, device="cuda:0")
        output = comm.allocate((4,), dtype=dtype, device="cuda:0")
        self.assertTrue(source.symmetric)
        self.assertFalse(output.symmetric)
        comm(output, source, self.process_group, op)

    def test_sums_and_averages(self):
        self.reduce(self.scatter(), self.torch.float32, "sum")
        self.reduce(self.scatter(), self.torch.bfloat16, "avg")
        self.reduce(self.scatter(factor=4.0), self.torch.float16, "premul")
        self.assertEqual(self.group.calls, [("scatter", "torch.float32", "torch.float32", 1.0, 7),
                                            ("scatter", "torch.bfloat16", "torch.bfloat16", 0.5, 7),
                                            ("scatter", "torch.float16", "torch.float16", 0.25, 7)])  # fmt: skip

    def test_float32_sums_take_narrower_gradients_as_they_are(self):
        comm = self.scatter()
        for gradient, expected in (("bfloat16", "bfloat16"), ("float32", "float32"), (None, "float32")):
            comm.gradient_dtype = gradient and getattr(self.torch, gradient)
            self.reduce(comm, self.torch.float32)
            self.assertEqual(self.group.calls.pop(), ("scatter", f"torch.{expected}", "torch.float32", 0.5, 7))
        comm.gradient_dtype = self.torch.float32
        self.reduce(comm, self.torch.bfloat16)
        self.assertEqual(self.group.calls.pop(), ("scatter", "torch.bfloat16", "torch.bfloat16", 0.5, 7))

    def test_a_captured_sum_of_long_slices_is_nccls(self):
        comm = self.scatter()
        for elements, captured in ((2**30, True), (2**30 + 1, False), (2**30 + 1, True)):
            self.current[0].captured = captured
            source = Tensor((2 * elements,), self.torch.bfloat16, symmetric=True)
            comm(Tensor((elements,), self.torch.bfloat16), source, self.process_group, "avg")
        self.assertEqual((len(self.group.calls), self.nccl), (2, ["torch.bfloat16"]))
        self.assertIn("it is captured and reduces 2147483650 bytes a rank, more than 2147483648", self.said()[0][1])

    def test_what_nccl_reduces_has_the_outputs_dtype(self):
        comm = self.scatter()
        comm.gradient_dtype = self.torch.bfloat16
        self.reduce(comm, self.torch.float32, "max")
        self.reduce(self.scatter(), self.torch.int64)
        self.assertEqual((self.nccl, self.group.calls), (["torch.float32", "torch.int64"], []))


if __name__ == "__main__":
    unittest.main()
