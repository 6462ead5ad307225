#include "traces/pytorch/pickle.hpp"

#include <limits>

#include "tests/catch.hpp"
#include "tests/traces/pytorch/packing.hpp"

namespace foreshard::traces {
namespace {

using namespace testing;
using namespace std::string_literals;

Result<Pickle> read_bytes(const std::string& bytes, const PickleLimits& limits = {}) {
  auto source = ByteSource::from_memory("input", bytes);
  REQUIRE(source);
  SourceWindow window(*source, kGiB);
  return read_pickle(window, limits);
}

Pickle read(const std::string& bytes) {
  auto pickle = read_bytes(bytes);
  INFO((pickle ? "" : pickle.error().text()));
  REQUIRE(pickle);
  return std::move(*pickle);
}

Error pickle_error(const std::string& bytes, const PickleLimits& limits = {}) {
  auto pickle = read_bytes(bytes, limits);
  REQUIRE(!pickle);
  CHECK(pickle.error().kind == ErrorKind::input);
  return pickle.error();
}

PlainValue item(const PlainDocument& document, std::size_t i) {
  return document.items(document.root())[i];
}

TEST_CASE("numbers of every opcode") {
  // [255, 65535, -2, 0, 2^63, -2^63, 2^70, 2^62, 1.5, True, False, None]
  const Pickle pickle = read(PickleBytes()
                                 .list()
                                 .op("K\xff")
                                 .op("M\xff\xff")
                                 .op("J\xfe\xff\xff\xff")
                                 .op("\x8a\x00"s)
                                 .op("\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x80\x00"s)
                                 .number(std::numeric_limits<std::int64_t>::min())
                                 .op("\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x40"s)
                                 .op("\x8b\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x40"s)
                                 .op("G\x3f\xf8\x00\x00\x00\x00\x00\x00"s)
                                 .op("\x88\x89N")
                                 .end_list()
                                 .stop());
  const PlainDocument& d = pickle.document;
  CHECK(d.int64(item(d, 0)) == 255);
  CHECK(d.int64(item(d, 1)) == 65535);
  CHECK(d.int64(item(d, 2)) == -2);
  CHECK(d.int64(item(d, 3)) == 0);
  CHECK(d.uint64(item(d, 4)) == 9223372036854775808ull);
  CHECK(!d.int64(item(d, 4)));
  CHECK(d.int64(item(d, 5)) == std::numeric_limits<std::int64_t>::min());
  CHECK(item(d, 6).kind() == PlainKind::huge_integer);
  CHECK(d.int64(item(d, 7)) == std::int64_t{1} << 62);
  CHECK(d.real(item(d, 8)) == 1.5);
  CHECK(d.boolean(item(d, 9)) == true);
  CHECK(d.boolean(item(d, 10)) == false);
  CHECK(item(d, 11).kind() == PlainKind::none);
  CHECK(pickle.protocol == 4);
}

TEST_CASE("a signed address reads as the unsigned one") {
  const Pickle pickle = read(PickleBytes(2).number(-4096).stop());
  CHECK(pickle.document.uint64(pickle.document.root()) == 0xfffffffffffff000ull);
}

TEST_CASE("shared values are one value, and a list may contain itself") {
  // a = ["x"]; [a, a, a]
  const Pickle shared = read(PickleBytes().op("](").op("]\x94").text("x").op("a").op("h\x00h\x00"s).op("e").stop());
  const PlainDocument& d = shared.document;
  REQUIRE(d.items(d.root()).size() == 3);
  CHECK(d.items(item(d, 0)).data() == d.items(item(d, 2)).data());
  CHECK(d.string(d.items(item(d, 1))[0]) == "x");
  const Pickle loop = read(PickleBytes().op("]\x94h\x00"s).op("a").stop());
  const PlainDocument& l = loop.document;
  CHECK(l.items(item(l, 0)).data() == l.items(l.root()).data());
}

TEST_CASE("containers are filled in batches, and the last of equal keys counts") {
  PickleBytes bytes;
  bytes.op("]");
  for (int batch = 0; batch < 3; ++batch) {
    bytes.op("(");
    for (int i = 0; i < 1000; ++i) bytes.op("K\x07");
    bytes.op("e");
  }
  const Pickle list = read(bytes.op("K\x08").op("a").stop());
  CHECK(list.document.items(list.document.root()).size() == 3001);
  const Pickle dict = read(PickleBytes().op("}").text("a").op("K\x01s").text("a").op("K\x02s").stop());
  CHECK(dict.document.int64(*dict.document.find(dict.document.root(), "a")) == 2);
  CHECK(!dict.document.find(dict.document.root(), "b"));
}

TEST_CASE("tuples, old forms, bytes and what follows the end") {
  const Pickle pickle = read(PickleBytes()
                                 .op(")")
                                 .op("K\x01\x85")
                                 .op("\x86")
                                 .op("(K\x01K\x02t")
                                 .op("(K\x03l")
                                 .op("(d")
                                 .op("C\x01z")
                                 .op("0\x87")
                                 .stop() +
                             "\0\0a\0"s);
  CHECK(pickle.trailing_bytes == 1);
  CHECK(pickle.document.items(pickle.document.root()).size() == 3);
}

TEST_CASE("objects are refused by name, with their byte") {
  const Error global = pickle_error(
      "\x80\x02"
      "ctorch._utils\n_rebuild_tensor_v2\n."s);
  CHECK(global.what == "the pickle holds an object (opcode GLOBAL: torch._utils)");
  CHECK(global.where == "input, byte 2");
  CHECK(global.hint.starts_with("foreshard never executes pickles"));
  const Error stack = pickle_error(PickleBytes().text("os").text("system").op("\x93").stop());
  CHECK(stack.what == "the pickle holds an object (opcode STACK_GLOBAL: os.system)");
  CHECK(stack.where == "input, byte 14");
  for (const auto& [opcode, name] : {std::pair{"R"s, "REDUCE"},
                                     {"b"s, "BUILD"},
                                     {"\x81"s, "NEWOBJ"},
                                     {"Q"s, "BINPERSID"},
                                     {"P0\n"s, "PERSID"},
                                     {"\x92"s, "NEWOBJ_EX"},
                                     {"i"s, "INST"},
                                     {"\x82\x01"s, "EXT1"}}) {
    INFO(name);
    CHECK(pickle_error("\x80\x04" + opcode + ".").what.find("opcode "s + name) != std::string::npos);
  }
  CHECK(pickle_error("I1\n.").what == "the pickle is in protocol 0 or 1's text form (opcode INT)");
  CHECK(pickle_error("\x80\x04\x8f.").what == "the pickle uses opcode EMPTY_SET, which a memory snapshot never has");
  CHECK(pickle_error("\xff").what == "byte 0xff is no pickle opcode: this is not a pickle, or it is damaged");
  CHECK(pickle_error("\x80\x06.").what == "the pickle has protocol 6, the newest known is 5");
}

TEST_CASE("every cut of a pickle is an error, never a crash") {
  const std::string whole = PickleBytes()
                                .op("\x95\x20\x00\x00\x00\x00\x00\x00\x00"s)
                                .dict()
                                .text("segments")
                                .op("\x94")
                                .list()
                                .number(5)
                                .op("X\x02\x00\x00\x00ok"s)
                                .end_list()
                                .end_dict()
                                .stop();
  REQUIRE(read_bytes(whole));
  for (std::size_t size = 1; size < whole.size(); ++size) {
    const Error error = pickle_error(whole.substr(0, size));
    CHECK(error.what == "the pickle is cut short");
    CHECK(error.where == "input, byte " + std::to_string(size));
  }
}

TEST_CASE("malformed pickles are refused") {
  CHECK(pickle_error("h\x05.").what == "the pickle refers to memo id 5, which was never given");
  CHECK(pickle_error("Nr\xff\xff\xff\xff.").what == "the pickle is malformed: memo id 4294967295 is out of range");
  CHECK(pickle_error("\x94.").what == "the pickle is malformed: nothing to remember");
  CHECK(pickle_error("e.").what == "the pickle is malformed: entries without their MARK");
  CHECK(pickle_error("t.").what == "the pickle is malformed: a container without its MARK");
  CHECK(pickle_error("NNa.").what == "the pickle is malformed: entries for a list that is not there");
  CHECK(pickle_error("](NNs.").what == "the pickle is malformed: entries for a dict that is not there");
  CHECK(pickle_error("}(Nu.").what == "the pickle is malformed: entries for a dict that is not there");
  CHECK(pickle_error("(Nd.").what == "the pickle is malformed: a key without value");
  CHECK(pickle_error("N(\x86.").what == "the pickle is malformed: a tuple takes more values than there are");
  CHECK(pickle_error("(0.").what == "the pickle is malformed: POP from an empty stack");
  CHECK(pickle_error(".").what == "the pickle is malformed: it stops before its value is done");
  CHECK(pickle_error("\x8b\xff\xff\xff\xff.").what == "a LONG4 has a negative length");
}

TEST_CASE("hostile counts and depths stay within bounds") {
  CHECK(pickle_error("\x8d\xff\xff\xff\xff\xff\xff\xff\xff.").what ==
        "a string has 18446744073709551615 bytes, which no memory snapshot has");
  CHECK(pickle_error("X\xff\xff\xff\x03.").what == "the pickle is cut short");
  CHECK(pickle_error(std::string(5000, '(')).what == "the pickle is nested deeper than 1000 levels");
  const std::string lists(100'000, ']');
  CHECK(pickle_error(lists + ".", {.value_bytes = kMiB}).what == "the values take more than 1048576 bytes");
  // A million nested lists are built and destroyed without recursion.
  std::string nested(1'000'000, ']');
  nested += std::string(999'999, 'a');
  const Pickle pickle = read(nested + ".");
  CHECK(pickle.document.items(pickle.document.root()).size() == 1);
  CHECK(pickle.document.value_bytes() < 64 * kMiB);
}

}  // namespace
}  // namespace foreshard::traces
