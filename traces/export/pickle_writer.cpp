#include "traces/export/pickle_writer.hpp"

#include <bit>

#include "core/base/utf8.hpp"

namespace foreshard::traces {
namespace {

constexpr std::uint32_t kBatch = 1000;
constexpr std::size_t kFlush = 65536;
// Opcodes: Lib/pickletools.py.
constexpr int kProto = 0x80, kMark = '(', kStop = '.', kEmptyDict = '}', kEmptyList = ']', kAppends = 'e',
              kBinInt = 'J', kBinInt1 = 'K', kBinInt2 = 'M', kLong1 = 0x8a, kBinFloat = 'G', kShortText = 0x8c,
              kText = 'X', kMemoize = 0x94, kGet = 'h', kLongGet = 'j';

}  // namespace

PickleWriter::PickleWriter(ByteSink& sink) : sink_(sink) {
  op(kProto);
  op(4);
}

void PickleWriter::flush() {
  if (buffer_.size() < kFlush) return;
  sink_.write(buffer_);
  buffer_.clear();
}

void PickleWriter::little_endian(std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) buffer_.push_back(static_cast<char>((value >> (8 * i)) & 0xff));
}

void PickleWriter::text(std::string_view recorded) {
  if (const auto found = texts_.find(recorded); found != texts_.end()) return fetch(found->second);
  const std::string value = valid_utf8(recorded);
  if (value.size() < 256) {
    op(kShortText);
    little_endian(value.size(), 1);
  } else {
    op(kText);
    little_endian(value.size(), 4);
  }
  buffer_ += value;
  texts_.emplace(std::string(recorded), remember());
}

void PickleWriter::integer(std::int64_t value) {
  if (value >= 0) return count(static_cast<std::uint64_t>(value));
  if (value >= INT32_MIN) {
    op(kBinInt);
    return little_endian(static_cast<std::uint64_t>(value), 4);
  }
  op(kLong1);
  little_endian(8, 1);
  little_endian(static_cast<std::uint64_t>(value), 8);
}

void PickleWriter::count(std::uint64_t value) {
  if (value <= 0xff) {
    op(kBinInt1);
    little_endian(value, 1);
  } else if (value <= 0xffff) {
    op(kBinInt2);
    little_endian(value, 2);
  } else if (value <= INT32_MAX) {
    op(kBinInt);
    little_endian(value, 4);
  } else {
    // Two's complement: a leading byte of 0 keeps the number positive.
    const int bytes = (static_cast<int>(std::bit_width(value)) + 8) / 8;
    op(kLong1);
    little_endian(static_cast<std::uint64_t>(bytes), 1);
    little_endian(value, bytes < 8 ? bytes : 8);
    if (bytes > 8) little_endian(0, 1);
  }
}

void PickleWriter::real(double value) {
  op(kBinFloat);
  const auto bits = std::bit_cast<std::uint64_t>(value);
  for (int shift = 56; shift >= 0; shift -= 8) buffer_.push_back(static_cast<char>((bits >> shift) & 0xff));
}

void PickleWriter::begin_dict() {
  op(kEmptyDict);
  op(kMark);
}

void PickleWriter::begin_list() {
  op(kEmptyList);
  in_batch_.push_back(0);
}

void PickleWriter::item() {
  std::uint32_t& items = in_batch_.back();
  if (items == kBatch) {
    op(kAppends);
    items = 0;
  }
  if (items == 0) op(kMark);
  ++items;
}

void PickleWriter::end_list() {
  if (in_batch_.back() > 0) op(kAppends);
  in_batch_.pop_back();
}

std::uint32_t PickleWriter::remember() {
  op(kMemoize);
  return memos_++;
}

void PickleWriter::fetch(std::uint32_t memo) {
  op(memo <= 0xff ? kGet : kLongGet);
  little_endian(memo, memo <= 0xff ? 1 : 4);
}

void PickleWriter::end() {
  op(kStop);
  sink_.write(buffer_);
  buffer_.clear();
}

}  // namespace foreshard::traces
