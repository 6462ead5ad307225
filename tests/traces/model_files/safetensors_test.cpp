#include "traces/model_files/safetensors.hpp"

#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/traces/model_files/safetensors_sample.hpp"

using namespace foreshard;
using namespace foreshard::traces;

namespace {

Error refused_header(const std::string& header, std::uint64_t data_bytes) {
  const auto tensors = parse_safetensors_header(header, data_bytes, "x.safetensors");
  REQUIRE_FALSE(tensors);
  CHECK(tensors.error().kind == ErrorKind::input);
  CHECK(tensors.error().where.starts_with("x.safetensors"));
  return tensors.error();
}

std::string tensor(const std::string& name, const std::string& dtype, const std::string& shape,
                   const std::string& offsets) {
  return "\"" + name + R"(": {"dtype": ")" + dtype + R"(", "shape": )" + shape + R"(, "data_offsets": )" + offsets +
         "}";
}

}  // namespace

TEST_CASE("a header gives its tensors in the order of their data") {
  const std::string header = R"({"__metadata__": {"format": "pt"}, )" + tensor("b", "BF16", "[2, 3]", "[16, 28]") +
                             ", " + tensor("a", "F32", "[4]", "[0, 16]") + ", " + tensor("c", "F4", "[4]", "[28, 30]") +
                             "}   ";  // padded with blanks, as the writer does
  const auto tensors = parse_safetensors_header(header, 30, "x");
  REQUIRE(tensors);
  REQUIRE(tensors->size() == 3);
  CHECK((*tensors)[0].name == "a");
  CHECK((*tensors)[1].shape == std::vector<std::int64_t>{2, 3});
  CHECK((*tensors)[1].bytes == 12);
  CHECK((*tensors)[2].dtype == "F4");
}

TEST_CASE("what the format refuses is refused, with the tensor") {
  CHECK(refused_header("{" + tensor("a", "F32", "[4]", "[0, 15]") + "}", 15).what ==
        "4 elements of F32 do not take the 15 bytes of data_offsets");
  CHECK(refused_header("{" + tensor("a", "F32", "[4]", "[0, 16]") + "}", 12).hint.find("cut short") !=
        std::string::npos);
  CHECK(refused_header("{" + tensor("a", "F32", "[4]", "[0, 16]") + "}", 20).what.find("end at byte 16 of 20") !=
        std::string::npos);
  CHECK(refused_header("{" + tensor("a", "F32", "[1]", "[0, 4]") + "," + tensor("b", "F32", "[1]", "[2, 6]") + "}", 6)
            .where == "x.safetensors, tensor 'b'");  // overlap
  CHECK(refused_header("{" + tensor("a", "F32", "[1]", "[0, 4]") + "," + tensor("b", "F32", "[1]", "[8, 12]") + "}", 12)
            .what.find("begins at byte 8") != std::string::npos);  // hole
  CHECK(refused_header("{" + tensor("a", "F32", "[1]", "[0, 4]") + "," + tensor("a", "F32", "[1]", "[4, 8]") + "}", 8)
            .what == "is there twice");
  CHECK(refused_header("{" + tensor("a", "FP32", "[4]", "[0, 16]") + "}", 16).hint == "did you mean 'F32'?");
  CHECK_FALSE(refused_header("{" + tensor("a", "F32", "[-4]", "[0, 16]") + "}", 16).what.empty());
  CHECK_FALSE(refused_header("{" + tensor("a", "F32", "[4.0]", "[0, 16]") + "}", 16).what.empty());
  CHECK_FALSE(refused_header("{" + tensor("a", "F32", "4", "[0, 16]") + "}", 16).what.empty());
  CHECK(refused_header("{" + tensor("a", "F32", "[4294967296, 4294967296, 16]", "[0, 16]") + "}", 16)
            .what.find("out of range") != std::string::npos);
  CHECK_FALSE(refused_header("{" + tensor("a", "F32", "[4]", "[16, 0]") + "}", 16).what.empty());
  CHECK_FALSE(refused_header("{" + tensor("a", "F32", "[4]", "[0, 16, 16]") + "}", 16).what.empty());
  CHECK_FALSE(refused_header(R"({"a": {"dtype": "F32", "shape": [4]}})", 16).what.empty());
  CHECK_FALSE(
      refused_header(R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4], "more": 1}})", 4).what.empty());
  CHECK_FALSE(refused_header(R"({"__metadata__": {"a": 1}})", 0).what.empty());
  CHECK_FALSE(refused_header(R"({"a": 3})", 0).what.empty());
  CHECK_FALSE(refused_header("[]", 0).what.empty());
  CHECK_FALSE(refused_header("{\"a\": ", 0).what.empty());
  CHECK_FALSE(refused_header(std::string(100, '['), 0).what.empty());
}

TEST_CASE("files that are short, foreign or cut are refused") {
  const test::TemporaryFolder folder;
  const std::string header = "{" + tensor("a", "F32", "[4]", "[0, 16]") + "}";
  CHECK(read_safetensors_header(folder.write("good.safetensors", safetensors_bytes(header, 16))));
  CHECK_FALSE(read_safetensors_header(folder.write("short.safetensors", "1234")));
  const auto foreign =
      read_safetensors_header(folder.write("zip.safetensors", "PK\x03\x04 a checkpoint of torch.save"));
  REQUIRE_FALSE(foreign);
  CHECK(foreign.error().what.find("100 MB") != std::string::npos);
  const auto cut =
      read_safetensors_header(folder.write("cut.safetensors", safetensors_bytes(header, 16).substr(0, 40)));
  REQUIRE_FALSE(cut);
  CHECK(cut.error().what.find("cut short") != std::string::npos);
  CHECK_FALSE(read_safetensors_header(folder.file("missing.safetensors")));
}

TEST_CASE("a folder with several files and an index") {
  const test::TemporaryFolder folder;
  const std::string first = safetensors_bytes("{" + tensor("a", "F32", "[4]", "[0, 16]") + "}", 16);
  const std::string second = safetensors_bytes("{" + tensor("b", "F32", "[2]", "[0, 8]") + "}", 8);
  CHECK_FALSE(has_safetensors(folder.path()));
  folder.write("model-00001-of-00002.safetensors", first);
  CHECK(has_safetensors(folder.path()));
  const auto half = read_safetensors_folder(folder.path());
  REQUIRE_FALSE(half);
  CHECK(half.error().what.find("1 of the 2 files") != std::string::npos);
  folder.write("model-00002-of-00002.safetensors", second);
  folder.write("consolidated.safetensors", first);  // the same weights again
  const auto whole = read_safetensors_folder(folder.path());
  REQUIRE(whole);
  CHECK(whole->size() == 2);

  const auto index = [&](const std::string& map) {
    folder.write("model.safetensors.index.json", R"({"metadata": {}, "weight_map": )" + map + "}");
    return read_safetensors_folder(folder.path());
  };
  CHECK(index(R"({"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"})"));
  CHECK_FALSE(index(R"({"a": "model-00001-of-00002.safetensors"})")->empty());
  CHECK_FALSE(index(R"({"a": "model-00002-of-00002.safetensors", "b": "model-00001-of-00002.safetensors"})"));
  CHECK_FALSE(index(R"({"a": "model-00001-of-00002.safetensors", "c": "model-00002-of-00002.safetensors"})"));
  CHECK_FALSE(index(R"({"a": "../model.safetensors"})"));
  CHECK_FALSE(index(R"({"a": 1})"));
  CHECK_FALSE(index("[]"));
}

TEST_CASE("a tensor in two files is refused") {
  const test::TemporaryFolder folder;
  const std::string same = safetensors_bytes("{" + tensor("a", "F32", "[4]", "[0, 16]") + "}", 16);
  folder.write("one.safetensors", same);
  folder.write("two.safetensors", same);
  const auto tensors = read_safetensors_folder(folder.path());
  REQUIRE_FALSE(tensors);
  CHECK(tensors.error().what == "the tensor 'a' is in one.safetensors and in two.safetensors");
}
