#include "traces/pytorch/json_data.hpp"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <unordered_map>
#include <vector>

namespace foreshard::traces {

namespace {

constexpr std::size_t kDepth = 64;         // a snapshot nests 6 deep
constexpr std::size_t kSharedLength = 64;  // keys, actions and states are shorter

class Builder {
 public:
  PlainValue build(simdjson::dom::element element) {
    switch (element.type()) {
      case simdjson::dom::element_type::NULL_VALUE:
        return {PlainKind::none, 0};
      case simdjson::dom::element_type::BOOL:
        return {PlainKind::boolean, element.get_bool().value_unsafe() ? 1 : 0};
      case simdjson::dom::element_type::INT64:
        return document_.make_integer(element.get_int64().value_unsafe());
      case simdjson::dom::element_type::UINT64:
        return document_.make_unsigned(element.get_uint64().value_unsafe());
      case simdjson::dom::element_type::DOUBLE:
        return document_.make_real(element.get_double().value_unsafe());
      case simdjson::dom::element_type::STRING:
        return text(element.get_string().value_unsafe());
      case simdjson::dom::element_type::ARRAY: {
        std::vector<PlainValue> values;
        const simdjson::dom::array array = element.get_array().value_unsafe();
        for (simdjson::dom::element item : array) values.push_back(build(item));
        return container(PlainKind::list, values);
      }
      default: {
        std::vector<PlainValue> values;
        const simdjson::dom::object object = element.get_object().value_unsafe();
        for (simdjson::dom::key_value_pair field : object) {
          values.push_back(text(field.key));
          values.push_back(build(field.value));
        }
        return container(PlainKind::dict, values);
      }
    }
  }

  PlainDocument finish(PlainValue root) {
    document_.set_root(root);
    return std::move(document_);
  }

 private:
  PlainValue container(PlainKind kind, const std::vector<PlainValue>& values) {
    const PlainValue made = document_.make_container(kind);
    document_.append(made, values);
    return made;
  }
  PlainValue text(std::string_view value) {
    if (value.size() > kSharedLength) return document_.make_string(value);
    if (auto it = shared_.find(value); it != shared_.end()) return it->second;
    const PlainValue made = document_.make_string(value);
    shared_.emplace(*document_.string(made), made);
    return made;
  }

  PlainDocument document_;
  std::unordered_map<std::string_view, PlainValue> shared_;  // lookup only, never iterated
};

}  // namespace

Result<PlainDocument> read_json_data(std::string_view text, const std::string& name) {
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  if (auto error = parser.allocate(std::max<std::size_t>(text.size(), 64), kDepth); error != simdjson::SUCCESS)
    return fail(ErrorKind::input, fmt::format("cannot parse the JSON: {}", simdjson::error_message(error)), name);
  if (auto error = parser.parse(text.data(), text.size()).get(root); error != simdjson::SUCCESS)
    return fail(ErrorKind::input, fmt::format("this is not valid JSON: {}", simdjson::error_message(error)), name,
                "the file may be cut short; write it again");
  Builder builder;
  return builder.finish(builder.build(root));
}

}  // namespace foreshard::traces
