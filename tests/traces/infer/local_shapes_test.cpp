// Global shapes of DTensor parameters become the rank's own, by the sizes of the first unshard.
#include "traces/infer/local_shapes.hpp"

#include "tests/catch.hpp"

namespace foreshard::traces {
namespace {

/// One unit of three weights on 4 ranks: tensor parallel over 2, sharded over 2, gathered in bfloat16.
struct TensorParallelRecording {
  std::vector<Unit> units{{"", {}},
                          {"layers.0",
                           {{"norm", {64}, DType::float32, true},
                            {"wq", {64, 32}, DType::float32, true},
                            {"wo", {63, 32}, DType::float32, true}}}};
  Settings settings;
  std::vector<RecordedUnit> recorded{RecordedUnit{}};

  TensorParallelRecording() {
    settings.gpus = 4;
    settings.tensor_parallel = 2;
    settings.param_dtype = DType::bfloat16;
  }
  void unshard(std::vector<Bytes> sizes) {
    RecordedUnit unit;
    unit.name = "layers.0";
    unit.gather.unsharded = std::move(sizes);
    recorded.push_back(std::move(unit));
  }
  Result<void> set() { return set_local_shapes(units, settings, recorded); }
  [[nodiscard]] const std::vector<std::int64_t>& shape(std::size_t i) const { return units[1].parameters[i].shape; }
};

TEST_CASE("column-wise, row-wise and replicated parameters are told apart") {
  TensorParallelRecording r;
  r.unshard({64 * 2, 32 * 32 * 2, 64 * 16 * 2});  // 63 rows are padded to 64 over two ranks
  REQUIRE(r.set());
  CHECK(r.shape(0) == std::vector<std::int64_t>{64});
  CHECK(r.shape(1) == std::vector<std::int64_t>{32, 32});
  // Both dimensions fit half: 32 rows of 32, or 63 rows of 16 padded to 64. The first is taken.
  CHECK(r.shape(2) == std::vector<std::int64_t>{32, 32});
}

TEST_CASE("a second dimension is divided where the first does not fit") {
  TensorParallelRecording r;
  r.units[1].parameters[2].shape = {61, 32};  // 31 rows padded to 32; or 61 rows padded to 62
  r.unshard({64 * 2, 32 * 32 * 2, 62 * 16 * 2});
  REQUIRE(r.set());
  CHECK(r.shape(2) == std::vector<std::int64_t>{61, 16});
}

TEST_CASE("local shapes stay, and so do those of a unit that is never unshard") {
  TensorParallelRecording r;
  r.units[1].parameters[1].shape = {32, 32};
  r.units[1].parameters[2].shape = {63, 16};
  r.unshard({64 * 2, 32 * 32 * 2, 64 * 16 * 2});
  REQUIRE(r.set());
  CHECK(r.shape(1) == std::vector<std::int64_t>{32, 32});
  CHECK(r.shape(2) == std::vector<std::int64_t>{63, 16});
  r.recorded.clear();
  r.units[1].parameters[1].shape = {64, 32};
  REQUIRE(r.set());
  CHECK(r.shape(1) == std::vector<std::int64_t>{64, 32});
}

TEST_CASE("a size that no division gives is an error with both sides") {
  TensorParallelRecording r;
  r.unshard({64 * 2, 1000, 2016});
  const auto done = r.set();
  REQUIRE_FALSE(done);
  CHECK(done.error().kind == ErrorKind::mismatch);
  CHECK(done.error().what.find("unshards 'wq' to 1000 bytes") != std::string::npos);
  r.settings.tensor_parallel = 1;
  CHECK(r.set());
}

}  // namespace
}  // namespace foreshard::traces
