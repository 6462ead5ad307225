#include "core/run/allocation_names.hpp"

#include "tests/catch.hpp"

namespace foreshard {
namespace {

/// A program, op by op.
class Written {
 public:
  Written() { workload.units = {{"", {}}, {"layers.0", {}}}; }
  Written& alloc(Bytes bytes) {
    Op& op = add(OpKind::alloc);
    op.size.bytes = bytes;
    return *this;
  }
  Written& kernel(const char* label, std::int64_t ns = 0, KernelClass kernel_class = KernelClass::memory_bound) {
    Op& op = add(OpKind::kernel);
    op.label = workload.labels.intern(label);
    op.kernel.work = {ns};
    op.kernel.kernel_class = kernel_class;
    return *this;
  }
  Written& hook(Hook hook, std::uint32_t unit = 0) {
    Op& op = add(OpKind::hook);
    op.hook = hook;
    op.unit = UnitId{unit};
    return *this;
  }
  /// "op in module" of every alloc, in order.
  [[nodiscard]] std::vector<std::string> names() {
    Labels labels = workload.labels;
    const auto named = allocation_names(workload, program, labels);
    std::vector<std::string> out;
    for (std::size_t i = 0; i < named.size(); ++i)
      if (program.ops[i].kind == OpKind::alloc)
        out.push_back(labels.text(named[i].op) + " in " +
                      (named[i].module.valid() ? "'" + labels.text(named[i].module) + "'" : std::string("none")));
    return out;
  }
  Workload workload;
  Program program;

 private:
  Op& add(OpKind kind) {
    program.ops.emplace_back();
    program.ops.back().kind = kind;
    return program.ops.back();
  }
};

using Names = std::vector<std::string>;

TEST_CASE("an allocation is named by the kernel that follows and the unit that runs") {
  Written w;
  w.hook(Hook::pre_forward, 0).alloc(8).kernel("aten::embedding");
  w.hook(Hook::pre_forward, 1).alloc(8).kernel("Memset", 0, KernelClass::memset).kernel("aten::mm").alloc(4);
  w.hook(Hook::post_forward, 1).alloc(8).alloc(8).kernel("aten::norm").hook(Hook::post_forward, 0);
  w.alloc(8).kernel("aten::nll_loss").hook(Hook::backward_begin).alloc(4).kernel("aten::fill_");
  w.hook(Hook::pre_backward, 0).hook(Hook::pre_backward, 1).alloc(8).kernel("aten::mm").hook(Hook::post_backward, 1);
  w.alloc(8).kernel("aten::embedding_backward").hook(Hook::backward_end).alloc(8).kernel("aten::add_");
  CHECK(w.names() == Names{"aten::embedding in ''", "aten::mm in 'layers.0'", " in 'layers.0'", "aten::norm in ''",
                           "aten::norm in ''", "aten::nll_loss in '(loss)'", "aten::fill_ in '(loss)'",
                           "aten::mm in 'layers.0'", "aten::embedding_backward in ''", "aten::add_ in none"});
}

TEST_CASE("an op's own names go first") {
  Written w;
  w.hook(Hook::pre_forward, 1).alloc(8).kernel("aten::mm");
  w.program.ops[1].label = w.workload.labels.intern("aten::linear");
  w.program.ops[1].module = w.workload.labels.intern("layers.0.wq");
  CHECK(w.names() == Names{"aten::linear in 'layers.0.wq'"});
}

TEST_CASE("of a recording the name is only near, and of a kernel that can have written the block") {
  Written w;
  w.workload.recorded_host_ms = {10};
  w.alloc(1024)
      .kernel("void tiny<int>(int)", 800)
      .alloc(4 * kGiB)
      .kernel("void fill<float>()", 900)
      .kernel("softmax", 4'000'000);
  w.alloc(4 * kGiB).hook(Hook::backward_begin).alloc(4);
  CHECK(w.names() == Names{"near tiny in none", "near softmax in none", "near softmax in none", " in none"});
}

TEST_CASE("a kernel's title is what it applies") {
  CHECK(kernel_title("void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::"
                     "TensorIteratorBase&)::{lambda()#3}::operator()() const>(int)") == "direct_copy_kernel_cuda");
  CHECK(
      kernel_title("void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl<at::native::BinaryFunctor<"
                   "float, float, float, at::native::binary_internal::MulFunctor<float> > >(int)>") == "MulFunctor");
  CHECK(kernel_title("void at::native::(anonymous namespace)::cunn_SoftMaxForward<4, float>(float*, int)") ==
        "cunn_SoftMaxForward");
  CHECK(kernel_title("nvjet_sm90_tst_192x192_64x4_2x1_v_bz_coopB_TNN") == "nvjet_sm90 GEMM");
  CHECK(kernel_title("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)") == "AllGather RING_LL");
  CHECK(kernel_title("ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)") ==
        "ReduceScatter Sum f32 RING_LL");
  CHECK(kernel_title("ncclSymkDevKernel_AllGather_LLMC(ncclSymkDevWorkArgs)") == "AllGather LLMC");
  CHECK(kernel_title("void cutlass::Kernel2<cutlass_75_tensorop_bf16_s1688gemm_bf16_128x128_tn_align1>(int)") ==
        "cutlass bf16 GEMM");
  CHECK(kernel_title("cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16_knob_26_64x64x128_kernel0_0") ==
        "cuDNN sdpa backward");
  CHECK(kernel_title("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::func_wrapper_t<"
                     "float, at::native::sum_functor<float> > > >(int)") == "sum_functor");
  CHECK(kernel_title(
            "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::TensorListMetadata<1>, "
            "at::native::BinaryOpScalarFunctor<float, 1, 1, 0>, std::multiplies<float>, float>(int)") ==
        "foreach multiplies");
  CHECK(kernel_title("void at::native::multi_tensor_apply_kernel<at::native::FusedAdamMathFunctor<float, 4>>(int)") ==
        "FusedAdamMathFunctor");
  CHECK(kernel_title("void multi_tensor_apply_kernel<Functor<<<<") == "multi_tensor_apply_kernel");
  CHECK(kernel_title("Memcpy HtoD (Pinned -> Device)") == "Memcpy HtoD");
  CHECK(kernel_title("") == "");
  CHECK(kernel_title("<") == "<");
  CHECK(kernel_title(std::string(100'000, '<')).size() <= 2048);
}

TEST_CASE("an op is called by its title: a symbol's, else its label") {
  CHECK(op_title("nvjet_sm90_tst_192x192_64x4_2x1_v_bz_coopB_TNN") == "nvjet_sm90 GEMM");
  CHECK(op_title("Memcpy HtoD (Pinned -> Device)") == "Memcpy HtoD (Pinned -> Device)");
  CHECK(op_title("my (op)") == "my (op)");
  CHECK(op_title("").empty());
  CHECK(short_op_title("nvjet_sm90_tst_192x192_64x4_2x1_v_bz_coopB_TNN") == "nvjet_sm90 GEMM");
  CHECK(short_op_title(std::string(47, 'a') + "ä") == std::string(47, 'a') + "…");
}

}  // namespace
}  // namespace foreshard
