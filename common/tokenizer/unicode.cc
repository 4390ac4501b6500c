#include "common/tokenizer/unicode.h"

#include <utf8proc.h>

#include <cstdlib>

namespace tributary {

Character FirstCharacter(absl::string_view text) {
  const unsigned char first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) return {first, 1};
  Character character;
  utf8proc_int32_t point = -1;
  const utf8proc_ssize_t bytes = utf8proc_iterate(
      reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
      static_cast<utf8proc_ssize_t>(text.size() < 4 ? text.size() : 4), &point);
  if (bytes <= 0) return {-1, 1};
  character.point = point;
  character.bytes = static_cast<size_t>(bytes);
  return character;
}

void AppendCharacter(int32_t point, std::string* text) {
  if (point < 0x80) {
    text->push_back(static_cast<char>(point));
    return;
  }
  utf8proc_uint8_t bytes[4];
  const utf8proc_ssize_t count = utf8proc_encode_char(point, bytes);
  text->append(reinterpret_cast<const char*>(bytes),
               static_cast<size_t>(count));
}

bool IsSpace(int32_t point) {
  if (point < 0x80) return point == ' ' || (point >= 9 && point <= 13);
  if (point == 0x85) return true;
  const utf8proc_category_t category = utf8proc_category(point);
  return category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL ||
         category == UTF8PROC_CATEGORY_ZP;
}

CharacterClass ClassOf(int32_t point) {
  if (point < 0) return CharacterClass::kOther;
  if (IsSpace(point)) return CharacterClass::kSpace;
  switch (utf8proc_category(point)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return CharacterClass::kLetter;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return CharacterClass::kNumber;
    default:
      return CharacterClass::kOther;
  }
}

bool IsControl(int32_t point) {
  switch (utf8proc_category(point)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CS:
      return true;
    default:
      return false;
  }
}

bool IsPunctuation(int32_t point) {
  switch (utf8proc_category(point)) {
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:
      return true;
    default:
      return false;
  }
}

bool IsNonspacingMark(int32_t point) {
  return utf8proc_category(point) == UTF8PROC_CATEGORY_MN;
}

void AppendDecomposed(absl::string_view text, std::string* to) {
  utf8proc_uint8_t* decomposed = nullptr;
  const utf8proc_ssize_t bytes = utf8proc_map(
      reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
      static_cast<utf8proc_ssize_t>(text.size()), &decomposed,
      static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE));
  if (bytes >= 0) {
    to->append(reinterpret_cast<const char*>(decomposed),
               static_cast<size_t>(bytes));
  }
  std::free(decomposed);
}

void AppendLowerCase(int32_t point, std::string* text) {
  // The only character whose lower case is always two characters: a capital I
  // with a dot. utf8proc has only the mappings to one character.
  if (point == 0x130) {
    text->append("i\xcc\x87");
    return;
  }
  AppendCharacter(utf8proc_tolower(point), text);
}

}  // namespace tributary
