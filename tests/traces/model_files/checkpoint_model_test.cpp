#include "traces/model_files/checkpoint_model.hpp"

#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/traces/model_files/safetensors_sample.hpp"

using namespace foreshard;
using namespace foreshard::traces;

namespace {

StoredTensor tensor(std::string name, std::vector<std::int64_t> shape, std::string dtype = "BF16") {
  std::uint64_t bytes = dtype == "F32" ? 4 : 2;
  for (const std::int64_t d : shape) bytes *= static_cast<std::uint64_t>(d);
  return {std::move(name), std::move(dtype), std::move(shape), bytes};
}

Error refused_checkpoint(std::vector<StoredTensor> tensors) {
  const auto file = states_model(tensors, "m", "m.safetensors");
  REQUIRE_FALSE(file);
  CHECK(file.error().where == "m.safetensors");
  return file.error();
}

}  // namespace

TEST_CASE("blocks become units by number, the rest is the root's") {
  std::vector<StoredTensor> tensors{tensor("lm_head.weight", {100, 8}),
                                    tensor("model.embed_tokens.weight", {100, 8}),
                                    tensor("model.layers.10.mlp.experts.3.w1.weight", {8, 8}),
                                    tensor("model.layers.2.self_attn.qkv_proj.weight", {24, 8}),
                                    tensor("model.layers.2.norm.weight", {8}, "F32"),
                                    tensor("model.norm.weight", {8}),
                                    tensor("vision.blocks.0.w", {4, 4})};
  const auto file = states_model(tensors, "m", "m.safetensors");
  REQUIRE(file);
  const auto& units = file->model.units;
  REQUIRE(units.size() == 4);
  CHECK(units[0].name.empty());
  CHECK(units[0].parameters.size() == 3);
  CHECK(units[1].name == "model.layers.2");
  CHECK(units[1].parameters.size() == 2);
  CHECK(units[1].parameters[1].dtype == DType::float32);
  CHECK(units[2].name == "model.layers.10");  // by number, not by text
  CHECK(units[3].name == "vision.blocks.0");
  CHECK(file->model.family == ModelFamily::states_only);
  CHECK(file->model.layers == 3);
  CHECK(file->model.dtype == DType::bfloat16);
  CHECK_FALSE(file->model.tied_embedding);
  REQUIRE(file->warnings.size() == 1);
  CHECK(file->warnings[0].find("estimated") != std::string::npos);
  REQUIRE(file->notes.size() == 1);
  CHECK(file->notes[0].find("1 parameters are fused") != std::string::npos);
}

TEST_CASE("a tied head, buffers and empty tensors are reported") {
  const auto file = states_model(
      {tensor("transformer.wte.weight", {100, 8}), tensor("transformer.h.0.attn.bias", {1, 1, 16, 16}, "F32"),
       tensor("transformer.h.0.ln_1.weight", {8}), tensor("transformer.h.0.none", {0, 8}),
       tensor("transformer.position_ids", {16}, "I64")},
      "gpt2", "m.safetensors");
  REQUIRE(file);
  CHECK(file->model.tied_embedding);
  REQUIRE(file->notes.size() == 3);
  CHECK(file->notes[0].starts_with("2 tensors are buffers"));
  CHECK(file->notes[1].starts_with("1 tensors are empty"));
  CHECK(file->notes[2].find("tied") != std::string::npos);
}

TEST_CASE("quantised checkpoints, adapters, scalars and empty files are refused") {
  CHECK(refused_checkpoint({tensor("layers.0.q.qweight", {8, 8}, "I32"), tensor("layers.0.q.scales", {8})})
            .what.find("2 of 2") != std::string::npos);
  CHECK(refused_checkpoint({tensor("layers.0.q.weight", {8, 8}, "F8_E4M3")}).what.find("quantised") !=
        std::string::npos);
  CHECK(refused_checkpoint({tensor("layers.0.q.weight", {8, 8}, "U8")}).what.find("quantised") != std::string::npos);
  CHECK(refused_checkpoint({tensor("layers.0.q.lora_A.weight", {8, 8})}).what.find("adapter") != std::string::npos);
  CHECK(refused_checkpoint({tensor("layers.0.scale", {}, "F32")}).what.find("scalar") != std::string::npos);
  CHECK(refused_checkpoint({}).what == "holds no parameters");
  CHECK(refused_checkpoint({tensor("layers.0.w", {8, 8}, "I64")}).what ==
        "holds no parameters: 'layers.0.w' is I64, and only floating point is trained");
  CHECK(refused_checkpoint({tensor("w", {8, 8})}).what == "none of its 1 parameters is in a block");
}

TEST_CASE("a checkpoint is read by its headers, from a file or a folder") {
  const test::TemporaryFolder folder;
  const std::string header = R"({"layers.0.w": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]},)"
                             R"("layers.1.w": {"dtype": "F32", "shape": [2, 2], "data_offsets": [16, 32]}})";
  const std::string path = folder.write("tiny.safetensors", safetensors_bytes(header, 32));
  const auto file = read_checkpoint(path);
  REQUIRE(file);
  CHECK(file->model.name == "tiny");
  CHECK(file->model.units.size() == 3);
  CHECK(file->model.units[0].parameters.empty());
  const auto whole = read_checkpoint(folder.path());
  REQUIRE(whole);
  CHECK(whole->model.units == file->model.units);
}
