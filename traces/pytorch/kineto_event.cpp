#include "traces/pytorch/kineto_event.hpp"

#include <fmt/format.h>
#include <simdjson.h>

#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

namespace foreshard::traces {

namespace {

namespace ondemand = simdjson::ondemand;

struct CategoryRow {
  std::string_view category;
  EventRole role;
};

// Kineto, libkineto/src/ActivityType.cpp; the capitalised names are those of PyTorch 1.8 to 1.11.
constexpr std::array kCategories{
    CategoryRow{"cpu_op", EventRole::cpu_op},
    CategoryRow{"ac2g", EventRole::ignored},
    CategoryRow{"cuda_runtime", EventRole::runtime},
    CategoryRow{"kernel", EventRole::kernel},
    CategoryRow{"fwdbwd", EventRole::ignored},
    CategoryRow{"python_function", EventRole::ignored},
    CategoryRow{"cuda_driver", EventRole::runtime},
    CategoryRow{"user_annotation", EventRole::annotation},
    CategoryRow{"gpu_user_annotation", EventRole::ignored},
    CategoryRow{"gpu_memcpy", EventRole::memcpy},
    CategoryRow{"gpu_memset", EventRole::memset},
    CategoryRow{"cuda_sync", EventRole::sync},
    CategoryRow{"cuda_event", EventRole::event_record},
    CategoryRow{"overhead", EventRole::ignored},
    CategoryRow{"Trace", EventRole::ignored},
    CategoryRow{"collective_comm", EventRole::ignored},
    CategoryRow{"external_correlation", EventRole::ignored},
    CategoryRow{"cpu_instant_event", EventRole::ignored},
    CategoryRow{"async_cpu_to_gpu", EventRole::ignored},
    CategoryRow{"forward_backward", EventRole::ignored},
    CategoryRow{"Operator", EventRole::cpu_op},
    CategoryRow{"Runtime", EventRole::runtime},
    CategoryRow{"Kernel", EventRole::kernel},
    CategoryRow{"Memcpy", EventRole::memcpy},
    CategoryRow{"Memset", EventRole::memset},
};

EventRole role_of(std::string_view phase, std::string_view category) {
  if (phase == "M") return EventRole::metadata;
  for (const CategoryRow& row : kCategories)
    if (row.category == category) return phase == "X" ? row.role : EventRole::ignored;
  // Instants and counters carry no category ("Iteration Start", "Record Window End").
  return phase != "X" && category.empty() ? EventRole::ignored : EventRole::other;
}

/// The number a token begins with; tokens of simdjson may end in blanks.
template <class Number>
std::optional<Number> leading_number(std::string_view token) {
  Number number{};
  const auto result = std::from_chars(token.data(), token.data() + token.size(), number);
  if (result.ec != std::errc{}) return std::nullopt;
  for (const char* p = result.ptr; p != token.data() + token.size(); ++p)
    if (*p != ' ' && *p != '\n' && *p != '\r' && *p != '\t') return std::nullopt;
  return number;
}

/// Reads the values of one event. A value of the wrong type leaves its field alone; broken JSON sets `error`.
class FieldReader {
 public:
  explicit FieldReader(KinetoEvent& event) : event_(event) {}
  simdjson::error_code error = simdjson::SUCCESS;

  void number(ondemand::value& value, std::optional<std::int64_t>& out) {
    const std::string_view token = value.raw_json_token();
    if (!token.empty() && token[0] == '"') return;  // pid "Spans"
    out = leading_number<std::int64_t>(token);
    if (!out) event_.malformed_field = true;
  }
  void number(ondemand::value& value, std::uint64_t& out) {
    const auto read = leading_number<std::uint64_t>(value.raw_json_token());
    if (read)
      out = *read;
    else
      event_.malformed_field = true;
  }
  void number(ondemand::value& value, std::optional<std::uint64_t>& out) {
    std::uint64_t read = std::numeric_limits<std::uint64_t>::max();
    number(value, read);
    if (read != std::numeric_limits<std::uint64_t>::max()) out = read;
  }
  void time(ondemand::value& value, std::optional<std::int64_t>& out) {
    out = parse_microseconds(value.raw_json_token());
    if (!out) event_.malformed_field = true;
  }
  void text(ondemand::value& value, std::string_view& out) {
    const std::string_view token = value.raw_json_token();
    if (token.empty() || token[0] != '"') {
      event_.malformed_field = true;
      return;
    }
    note(value.get_string().get(out));
  }
  void triple(ondemand::value& value, std::array<std::uint32_t, 3>& out) {
    ondemand::array array;
    const auto failed = value.get_array().get(array);
    if (failed == simdjson::INCORRECT_TYPE) {
      event_.malformed_field = true;
      return;
    }
    note(failed);
    if (error != simdjson::SUCCESS) return;
    std::size_t i = 0;
    for (auto item : array) {
      ondemand::value number;
      note(std::move(item).get(number));
      if (error != simdjson::SUCCESS) return;
      const auto read = leading_number<std::uint32_t>(number.raw_json_token());
      if (!read || i == out.size()) {
        event_.malformed_field = true;
        continue;
      }
      out[i++] = *read;
    }
  }
  void note(simdjson::error_code code) {
    if (error == simdjson::SUCCESS) error = code;
  }

 private:
  KinetoEvent& event_;
};

/// A key as written; none of the known ones needs an escape.
std::string_view raw_key(ondemand::field& field) {
  const char* raw = field.key().raw();
  return {raw, static_cast<std::size_t>(static_cast<const char*>(std::strchr(raw, '"')) - raw)};
}

void read_argument(KinetoEvent& event, FieldReader& read, std::string_view key, ondemand::value value) {
  CollectiveArgs& collective = event.collective;
  if (key == "correlation") return read.number(value, event.correlation);
  if (key == "External id") return read.number(value, event.external_id);
  if (key == "stream") return read.number(value, event.stream);
  if (key == "bytes") return read.number(value, event.bytes);
  if (key == "grid") return read.triple(value, event.grid);
  if (key == "block") return read.triple(value, event.block);
  if (key == "name") return read.text(value, event.label);
  if (key == "Collective name") return read.text(value, collective.name);
  if (key == "dtype") return read.text(value, collective.dtype);
  if (key == "In msg nelems") return read.number(value, collective.in_elements);
  if (key == "Out msg nelems") return read.number(value, collective.out_elements);
  if (key == "In split size") return read.text(value, collective.in_split);
  if (key == "Out split size") return read.text(value, collective.out_split);
  if (key == "Group size") return read.number(value, collective.group_size);
  if (key == "Process Group Name") return read.text(value, collective.group);
  if (key == "Process Group Description") return read.text(value, collective.description);
  if (key == "Process Group Ranks") return read.text(value, collective.ranks);
  if (key == "cuda_sync_kind") return read.text(value, event.sync_kind);
  if (key == "wait_on_stream") return read.number(value, event.wait_on_stream);
  if (key == "wait_on_cuda_event_record_corr_id") return read.number(value, event.wait_on_record);
}

void read_arguments(KinetoEvent& event, FieldReader& read, ondemand::value& value) {
  ondemand::object arguments;
  const auto failed = value.get_object().get(arguments);
  if (failed == simdjson::INCORRECT_TYPE) {
    event.malformed_field = true;
    return;
  }
  read.note(failed);
  if (read.error != simdjson::SUCCESS) return;
  for (auto item : arguments) {
    ondemand::field field;
    read.note(std::move(item).get(field));
    if (read.error != simdjson::SUCCESS) return;
    read_argument(event, read, raw_key(field), field.value());
    if (read.error != simdjson::SUCCESS) return;
  }
}

}  // namespace

struct KinetoEventParser::State {
  ondemand::parser parser;
};

KinetoEventParser::KinetoEventParser() : state_(std::make_unique<State>()) {}
KinetoEventParser::~KinetoEventParser() = default;

Result<KinetoEvent> KinetoEventParser::parse(const JsonPiece& piece, const std::string& file) {
  KinetoEvent event;
  FieldReader read(event);
  ondemand::document document;
  ondemand::object object;
  std::string_view phase;
  read.note(state_->parser.iterate(piece.text.data(), piece.text.size(), piece.text.size() + JsonPieces::kPadding)
                .get(document));
  if (read.error == simdjson::SUCCESS) read.note(document.get_object().get(object));
  if (read.error == simdjson::SUCCESS) {
    for (auto item : object) {
      ondemand::field field;
      read.note(std::move(item).get(field));
      if (read.error != simdjson::SUCCESS) break;
      const std::string_view key = raw_key(field);
      ondemand::value value = field.value();
      if (key == "ph")
        read.text(value, phase);
      else if (key == "cat")
        read.text(value, event.category);
      else if (key == "name")
        read.text(value, event.name);
      else if (key == "ts")
        read.time(value, event.start_ns);
      else if (key == "dur")
        read.time(value, event.duration_ns);
      else if (key == "pid")
        read.number(value, event.pid);
      else if (key == "tid")
        read.number(value, event.tid);
      else if (key == "args" && (event.category != "cpu_op" || event.name == "record_param_comms"))
        read_arguments(event, read, value);
      if (read.error != simdjson::SUCCESS) break;
    }
  }
  if (read.error != simdjson::SUCCESS)
    return fail(ErrorKind::input, fmt::format("this event is not valid JSON: {}", simdjson::error_message(read.error)),
                fmt::format("{}, byte {}", file, piece.offset), "the file is damaged; record or copy it again");
  event.role = role_of(phase, event.category);
  return event;
}

std::optional<std::int64_t> parse_microseconds(std::string_view text) {
  constexpr std::int64_t kBound = 4'000'000'000'000'000;  // µs: the year 2096 on the Unix clock
  constexpr std::int64_t kLowerBound = -1'000'000'000'000'000;
  const bool negative = !text.empty() && text[0] == '-';
  std::size_t i = negative ? 1 : 0;
  const std::size_t first = i;
  std::int64_t us = 0;
  for (; i < text.size() && text[i] >= '0' && text[i] <= '9'; ++i) {
    us = us * 10 + (text[i] - '0');
    if (us > kBound) return std::nullopt;
  }
  if (i == first) return std::nullopt;
  std::int64_t ns = us * 1000;
  if (i < text.size() && text[i] == '.') {
    std::int64_t unit = 100;
    bool round_up = false;
    std::size_t digits = 0;
    for (++i; i < text.size() && text[i] >= '0' && text[i] <= '9'; ++i, ++digits) {
      ns += unit * (text[i] - '0');
      if (digits == 3) round_up = text[i] >= '5';
      unit /= 10;
    }
    ns += round_up ? 1 : 0;
  }
  if (i < text.size() && (text[i] == 'e' || text[i] == 'E')) {
    const auto value = leading_number<double>(text);
    if (!value || !(std::abs(*value) <= static_cast<double>(kBound))) return std::nullopt;
    ns = std::llround(std::abs(*value) * 1000);
  } else {
    for (; i < text.size(); ++i)
      if (text[i] != ' ' && text[i] != '\n' && text[i] != '\r' && text[i] != '\t') return std::nullopt;
  }
  if (negative) ns = -ns;
  return ns < kLowerBound * 1000 ? std::nullopt : std::optional<std::int64_t>{ns};
}

}  // namespace foreshard::traces
