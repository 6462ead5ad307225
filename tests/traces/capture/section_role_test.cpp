#include "traces/capture/section_role.hpp"

#include "tests/catch.hpp"

using namespace foreshard;
using namespace foreshard::traces;

TEST_CASE("roles of a section's ops") {
  using Roles = std::vector<SectionRole>;
  const auto roles = [](Section section, std::vector<std::string_view> names, bool casts) {
    std::vector<SectionOp> ops;
    for (const std::string_view name : names) ops.push_back({name, DeviceOpRecord::Kind::kernel});
    return section_roles(section, ops, casts);
  };
  constexpr std::string_view kForeach = "void multi_tensor_apply_kernel<Copy<c10::BFloat16> >";
  constexpr std::string_view kGather = "ncclDevKernel_AllGather_RING_LL";
  constexpr std::string_view kPeer = "Memcpy PtoP (Device -> Device)";
  constexpr std::string_view kToDevice = "Memcpy HtoD (Pinned -> Device)";
  constexpr std::string_view kToHost = "Memcpy DtoH (Device -> Pinned)";
  constexpr std::string_view kElementwise = "void unrolled_elementwise_kernel<direct_copy_kernel_cuda(…)>";
  constexpr auto kCast = SectionRole::cast;
  constexpr auto kCopyIn = SectionRole::copy_in;
  constexpr auto kCollective = SectionRole::collective;

  // Names that do not tell casts from copies: the first half are casts where the unit's all-gathers cast.
  CHECK(roles(Section::all_gather, {kForeach, kForeach, kForeach, kForeach, kGather}, true) ==
        Roles{kCast, kCast, kCopyIn, kCopyIn, kCollective});
  CHECK(roles(Section::all_gather, {kForeach, kForeach, kPeer}, false) == Roles{kCopyIn, kCopyIn, kCollective});
  CHECK(roles(Section::all_gather, {kToDevice, kElementwise, kForeach, kGather}, false) ==
        Roles{SectionRole::offload_copy, kCast, kCopyIn, kCollective});
  CHECK(roles(Section::reduce,
              {kToDevice, "void chunk_cat_cuda_kernel<float>", "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL",
               "ncclDevKernel_AllReduce_Sum_f32_RING_LL", kElementwise, kToHost},
              true) == Roles{SectionRole::metadata_copy, SectionRole::chunk_cat, kCollective, SectionRole::all_reduce,
                             SectionRole::cast_back, SectionRole::offload_copy});
  // Of a parameter that is cut along another dimension: torch.cat behind the copy-out, and in front of the copy-in.
  constexpr std::string_view kCat = "void at::native::(anonymous namespace)::CatArrayBatchedCopy_contig<float, 4>";
  CHECK(roles(Section::copy_out, {kToDevice, "void split_with_sizes_copy_out_contiguous_no_cast_kernel", kCat}, true) ==
        Roles{SectionRole::metadata_copy, SectionRole::split, SectionRole::cat});
  CHECK(roles(Section::reduce, {kCat, kToDevice, "void chunk_cat_cuda_kernel<float>"}, true) ==
        Roles{SectionRole::cat, SectionRole::metadata_copy, SectionRole::chunk_cat});
  // Of a group of one rank: the quotient and its copy in place of a reduce-scatter.
  constexpr std::string_view kDivide = "void vectorized_elementwise_kernel<4, BUnaryFunctor<MulFunctor<float> > >";
  constexpr std::string_view kWithin = "Memcpy DtoD (Device -> Device)";
  CHECK(roles(Section::reduce, {kToDevice, "void chunk_cat_cuda_kernel<float>", kDivide, kWithin, kElementwise},
              true) == Roles{SectionRole::metadata_copy, SectionRole::chunk_cat, SectionRole::copy_reduced,
                             SectionRole::copy_reduced, SectionRole::cast_back});
  CHECK(roles(Section::copy_out, {kToDevice, kElementwise, "Memcpy DtoD (Device -> Device)"}, false) ==
        Roles{SectionRole::offload_copy, kCast, SectionRole::split});  // a group of one rank
  CHECK(roles(Section::reshard, {"Memcpy DtoD (Device -> Device)", kElementwise}, false) ==
        Roles{SectionRole::clone, SectionRole::gradient_cast});
  CHECK(roles(Section::optimizer, {kForeach}, true) == Roles{SectionRole::other});
}
