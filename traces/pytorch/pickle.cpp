#include "traces/pytorch/pickle.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "traces/pytorch/pickle_opcodes.hpp"

namespace foreshard::traces {

namespace {

constexpr int kNewestProtocol = 5;
constexpr std::size_t kContainerLimit = std::numeric_limits<std::uint32_t>::max();

/// The pickle machine: a stack of values, a stack of marks into it, a memo. Every `step` consumes at least one
/// byte of input and adds a bounded number of values, so memory stays a small multiple of the input.
class Machine {
 public:
  Machine(SourceWindow& source, const PickleLimits& limits) : source_(source), limits_(limits) {}

  Result<Pickle> run() {
    while (!stopped_) {
      opcode_place_ = source_.place();
      FORESHARD_TRY(step());
      if (document_.value_bytes() + sizeof(PlainValue) * (stack_.size() + memo_.size()) > limits_.value_bytes)
        return fail_here(fmt::format("the values take more than {} bytes", limits_.value_bytes),
                         "raise the limit if the file is meant to be that large");
    }
    const auto trailing = count_rest();
    FORESHARD_TRY(trailing);
    return Pickle{std::move(document_), protocol_, *trailing};
  }

 private:
  using Done = Result<void>;

  [[nodiscard]] tl::unexpected<Error> fail_here(std::string what, std::string hint = {}) const {
    return fail(ErrorKind::input, std::move(what), fmt::format("{}, byte {}", source_.name(), opcode_place_),
                std::move(hint));
  }
  // Why take() gave nothing.
  [[nodiscard]] tl::unexpected<Error> not_taken() {
    if (failure_) return tl::unexpected(*failure_);
    return fail(ErrorKind::input, "the pickle is cut short",
                fmt::format("{}, byte {}", source_.name(), source_.place() + left_),
                "copy the file again, or write it again: it is incomplete");
  }

  // The next `count` bytes, valid until the next call; false when the input ends before or cannot be read.
  [[nodiscard]] bool take(std::uint64_t count, std::string_view& out) {
    auto bytes = source_.peek(count);
    if (!bytes) failure_ = bytes.error();
    left_ = bytes ? bytes->size() : 0;
    if (left_ < count) return false;
    out = *bytes;
    source_.skip(count);
    return true;
  }
  // A little-endian unsigned number of `width` bytes.
  [[nodiscard]] bool take_number(std::size_t width, std::uint64_t& out) {
    std::string_view raw;
    if (!take(width, raw)) return false;
    out = 0;
    for (std::size_t i = 0; i < width; ++i) out |= std::uint64_t{static_cast<unsigned char>(raw[i])} << (8 * i);
    return true;
  }

  Done push(PlainValue value) {
    stack_.push_back(value);
    return {};
  }
  // How many values lie above the innermost mark: those that an opcode without a mark may touch.
  [[nodiscard]] std::size_t reachable() const { return stack_.size() - (marks_.empty() ? 0 : marks_.back()); }

  Done step();
  Done scalar(std::uint8_t byte);
  Done number(PickleOp op);
  Done long_integer(std::size_t width);
  Done text(std::size_t width, PlainKind kind);
  Done fixed_tuple(std::size_t size);
  Done from_mark(PlainKind kind);
  Done extend(PlainKind kind, bool marked);
  Done put(std::uint64_t id);
  Done get(std::uint64_t id);
  Done memo(PickleOp op);
  Done control(PickleOp op);
  Done refuse(std::uint8_t byte);
  Result<Bytes> count_rest();

  SourceWindow& source_;
  PickleLimits limits_;
  PlainDocument document_;
  Bytes opcode_place_ = 0;
  std::optional<Error> failure_;  // of the source
  std::size_t left_ = 0;          // what the source had for the last take()
  std::vector<PlainValue> stack_;
  std::vector<std::size_t> marks_;
  std::vector<PlainValue> memo_;  // a kMissing value where an id was never given
  int protocol_ = 0;
  bool stopped_ = false;

  static constexpr PlainValue kMissing{static_cast<PlainKind>(0xff), 0};
};

Machine::Done Machine::step() {
  std::string_view first;
  if (!take(1, first)) return not_taken();
  const auto byte = static_cast<std::uint8_t>(first[0]);
  const auto op = static_cast<PickleOp>(byte);
  switch (op) {
    case PickleOp::append:
      return extend(PlainKind::list, false);
    case PickleOp::appends:
      return extend(PlainKind::list, true);
    case PickleOp::setitem:
      return extend(PlainKind::dict, false);
    case PickleOp::setitems:
      return extend(PlainKind::dict, true);
    case PickleOp::memoize:
    case PickleOp::binput:
    case PickleOp::long_binput:
    case PickleOp::binget:
    case PickleOp::long_binget:
      return memo(op);
    case PickleOp::mark:
    case PickleOp::pop:
    case PickleOp::proto:
    case PickleOp::frame:
    case PickleOp::stop:
      return control(op);
    case PickleOp::empty_list:
      return push(document_.make_container(PlainKind::list));
    case PickleOp::empty_dict:
      return push(document_.make_container(PlainKind::dict));
    case PickleOp::empty_tuple:
      return push(document_.make_container(PlainKind::tuple));
    case PickleOp::tuple1:
      return fixed_tuple(1);
    case PickleOp::tuple2:
      return fixed_tuple(2);
    case PickleOp::tuple3:
      return fixed_tuple(3);
    case PickleOp::tuple:
      return from_mark(PlainKind::tuple);
    case PickleOp::list:
      return from_mark(PlainKind::list);
    case PickleOp::dict:
      return from_mark(PlainKind::dict);
    default:
      return scalar(byte);
  }
}

Machine::Done Machine::scalar(std::uint8_t byte) {
  const auto op = static_cast<PickleOp>(byte);
  switch (op) {
    case PickleOp::none:
      return push({PlainKind::none, 0});
    case PickleOp::newtrue:
      return push({PlainKind::boolean, 1});
    case PickleOp::newfalse:
      return push({PlainKind::boolean, 0});
    case PickleOp::binint:
    case PickleOp::binint1:
    case PickleOp::binint2:
    case PickleOp::binfloat:
      return number(op);
    case PickleOp::long1:
      return long_integer(1);
    case PickleOp::long4:
      return long_integer(4);
    case PickleOp::short_binunicode:
      return text(1, PlainKind::string);
    case PickleOp::binunicode:
      return text(4, PlainKind::string);
    case PickleOp::binunicode8:
      return text(8, PlainKind::string);
    case PickleOp::short_binbytes:
      return text(1, PlainKind::bytes);
    case PickleOp::binbytes:
      return text(4, PlainKind::bytes);
    case PickleOp::binbytes8:
      return text(8, PlainKind::bytes);
    default:
      return refuse(byte);
  }
}

Machine::Done Machine::number(PickleOp op) {
  std::uint64_t raw = 0;
  if (op == PickleOp::binfloat) {
    if (!take_number(8, raw)) return not_taken();
    return push(document_.make_real(std::bit_cast<double>(__builtin_bswap64(raw))));  // stored big-endian
  }
  if (!take_number(op == PickleOp::binint1 ? 1 : op == PickleOp::binint2 ? 2 : 4, raw)) return not_taken();
  if (op == PickleOp::binint) return push(document_.make_integer(static_cast<std::int32_t>(raw)));
  return push(document_.make_integer(static_cast<std::int64_t>(raw)));
}

// LONG1 and LONG4: a length, then that many bytes of little-endian two's complement; length 0 is 0.
Machine::Done Machine::long_integer(std::size_t width) {
  std::uint64_t length = 0;
  std::string_view raw;
  if (!take_number(width, length)) return not_taken();
  if (width == 4 && length > 0x7fffffff) return fail_here("a LONG4 has a negative length");
  if (length > limits_.string_bytes) return fail_here(fmt::format("an integer has {} bytes", length));
  if (!take(length, raw)) return not_taken();
  const bool negative = !raw.empty() && (raw.back() & 0x80) != 0;
  const char fill = negative ? '\xff' : '\0';
  while (raw.size() > 1 && raw.back() == fill && ((raw[raw.size() - 2] & 0x80) != 0) == negative) raw.remove_suffix(1);
  // Nine bytes hold the unsigned numbers from 2^63 on: device handles and unknown line numbers (pytorch#115234).
  if (raw.size() == 9 && raw.back() == '\0') raw.remove_suffix(1);
  if (raw.size() > 8) return push({PlainKind::huge_integer, 0});
  std::uint64_t bits = negative ? ~std::uint64_t{0} : 0;
  for (std::size_t i = 0; i < raw.size(); ++i) {
    bits &= ~(std::uint64_t{0xff} << (8 * i));
    bits |= std::uint64_t{static_cast<unsigned char>(raw[i])} << (8 * i);
  }
  if (negative) return push(document_.make_integer(static_cast<std::int64_t>(bits)));
  return push(document_.make_unsigned(bits));
}

Machine::Done Machine::text(std::size_t width, PlainKind kind) {
  std::uint64_t length = 0;
  std::string_view raw;
  if (!take_number(width, length)) return not_taken();
  if (length > limits_.string_bytes)
    return fail_here(fmt::format("a string has {} bytes, which no memory snapshot has", length));
  if (!take(length, raw)) return not_taken();
  return push(document_.make_string(raw, kind));
}

Machine::Done Machine::fixed_tuple(std::size_t size) {
  if (reachable() < size) return fail_here("the pickle is malformed: a tuple takes more values than there are");
  const PlainValue made = document_.make_container(PlainKind::tuple);
  document_.append(made, std::span(stack_).last(size));
  stack_.resize(stack_.size() - size);
  return push(made);
}

Machine::Done Machine::from_mark(PlainKind kind) {
  if (marks_.empty()) return fail_here("the pickle is malformed: a container without its MARK");
  const std::span<const PlainValue> values = std::span(stack_).subspan(marks_.back());
  if (kind == PlainKind::dict && values.size() % 2 != 0)
    return fail_here("the pickle is malformed: a key without value");
  if (values.size() > kContainerLimit) return fail_here("a container has more than 2^32 entries");
  const PlainValue made = document_.make_container(kind);
  document_.append(made, values);
  stack_.resize(marks_.back());
  marks_.pop_back();
  return push(made);
}

// APPEND(S) and SETITEM(S): values on top of the stack go into the container below them.
Machine::Done Machine::extend(PlainKind kind, bool marked) {
  const bool is_dict = kind == PlainKind::dict;
  if (marked && marks_.empty()) return fail_here("the pickle is malformed: entries without their MARK");
  const std::size_t single = is_dict ? 2 : 1;
  const std::size_t first = marked ? marks_.back() : stack_.size() - std::min(stack_.size(), single);
  if (marked) marks_.pop_back();
  const std::size_t count = stack_.size() - first;
  if (first == 0 || reachable() < count + 1 || (is_dict && count % 2 != 0) || stack_[first - 1].kind() != kind)
    return fail_here(fmt::format("the pickle is malformed: entries for {} that is not there", describe(kind)));
  const PlainValue container = stack_[first - 1];
  const std::size_t held = (is_dict ? document_.entries(container) : document_.items(container)).size();
  if (held + count > kContainerLimit) return fail_here("a container has more than 2^32 entries");
  document_.append(container, std::span(stack_).subspan(first));
  stack_.resize(first);
  return {};
}

Machine::Done Machine::put(std::uint64_t id) {
  if (reachable() == 0) return fail_here("the pickle is malformed: nothing to remember");
  // Picklers number their memo from 0 and each entry costs bytes, so no honest id exceeds what was read.
  if (id >= source_.place()) return fail_here(fmt::format("the pickle is malformed: memo id {} is out of range", id));
  if (id >= memo_.size()) memo_.resize(id + 1, kMissing);
  memo_[id] = stack_.back();
  return {};
}

Machine::Done Machine::get(std::uint64_t id) {
  if (id >= memo_.size() || memo_[id].kind() == kMissing.kind())
    return fail_here(fmt::format("the pickle refers to memo id {}, which was never given", id));
  return push(memo_[id]);
}

Machine::Done Machine::memo(PickleOp op) {
  if (op == PickleOp::memoize) return put(memo_.size());
  std::uint64_t id = 0;
  const bool is_long = op == PickleOp::long_binput || op == PickleOp::long_binget;
  if (!take_number(is_long ? 4 : 1, id)) return not_taken();
  return op == PickleOp::binput || op == PickleOp::long_binput ? put(id) : get(id);
}

Machine::Done Machine::control(PickleOp op) {
  std::uint64_t number = 0;
  switch (op) {
    case PickleOp::mark:
      if (marks_.size() >= limits_.open_marks)
        return fail_here(fmt::format("the pickle is nested deeper than {} levels", limits_.open_marks));
      marks_.push_back(stack_.size());
      return {};
    case PickleOp::pop:
      if (reachable() == 0) return fail_here("the pickle is malformed: POP from an empty stack");
      stack_.pop_back();
      return {};
    case PickleOp::proto:
      if (!take_number(1, number)) return not_taken();
      if (number > kNewestProtocol)
        return fail_here(fmt::format("the pickle has protocol {}, the newest known is {}", number, kNewestProtocol));
      protocol_ = static_cast<int>(number);
      return {};
    case PickleOp::frame:
      return take_number(8, number) ? Done() : not_taken();
    default:  // stop
      if (stack_.empty() || !marks_.empty())
        return fail_here("the pickle is malformed: it stops before its value is done");
      document_.set_root(stack_.back());
      stopped_ = true;
      return {};
  }
}

/// How many bytes that are not zero follow.
Result<Bytes> Machine::count_rest() {
  constexpr std::size_t kPiece = 64 * kKiB;
  Bytes count = 0;
  for (;;) {
    const auto bytes = source_.peek(kPiece);
    FORESHARD_TRY(bytes);
    count += static_cast<Bytes>(std::count_if(bytes->begin(), bytes->end(), [](char byte) { return byte != 0; }));
    source_.skip(bytes->size());
    if (bytes->size() < kPiece) return count;
  }
}

Machine::Done Machine::refuse(std::uint8_t byte) {
  const RefusedOpcode refused = refused_opcode(byte);
  switch (refused.kind) {
    case RefusedOp::object: {
      std::string what = fmt::format("the pickle holds an object (opcode {}", refused.name);
      const auto is_name = [&](std::size_t from_top) {
        return stack_.size() >= from_top && stack_[stack_.size() - from_top].kind() == PlainKind::string;
      };
      if (byte == 'c') {  // "module\nname\n" follows
        const auto rest = source_.peek(80);
        if (rest) what += fmt::format(": {}", rest->substr(0, rest->find('\n')));
      } else if (refused.name == "STACK_GLOBAL" && is_name(1) && is_name(2)) {
        what += fmt::format(": {}.{}", document_.string(stack_[stack_.size() - 2])->substr(0, 80),
                            document_.string(stack_.back())->substr(0, 80));
      }
      return fail_here(what + ")",
                       "foreshard never executes pickles; a memory snapshot holds plain data only "
                       "(torch.cuda.memory._dump_snapshot)");
    }
    case RefusedOp::text:
      return fail_here(fmt::format("the pickle is in protocol 0 or 1's text form (opcode {})", refused.name),
                       "write it with protocol 2 to 5");
    case RefusedOp::other:
      return fail_here(fmt::format("the pickle uses opcode {}, which a memory snapshot never has", refused.name));
    default:
      return fail_here(fmt::format("byte 0x{:02x} is no pickle opcode: this is not a pickle, or it is damaged", byte),
                       "a memory snapshot is what torch.cuda.memory._dump_snapshot() wrote");
  }
}

}  // namespace

Result<Pickle> read_pickle(SourceWindow& source, const PickleLimits& limits) {
  return Machine(source, limits).run();
}

}  // namespace foreshard::traces
