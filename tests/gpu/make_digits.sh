#!/bin/bash
# Writes images of the digits 0 to 9 in MNIST's format (IDX):
#
#   make_digits.sh FOLDER
#
# 2,000 training and 500 test images of 28 x 28 pixels show seven-segment digits
# at different places, in different sizes and brightness, on noise. Every call
# writes the same bytes.
set -euo pipefail

# write_set COUNT SEED IMAGES LABELS
write_set() {
  LC_ALL=C awk -v count="$1" -v seed="$2" -v images="$3" -v labels="$4" '
    # A linear congruential generator, whose products are exact in a double.
    function draw(bound) {
      seed = (seed * 69069 + 1) % 4294967296
      return int(seed / 65536) % bound
    }
    function header(file, type, size) {
      printf "%c%c%c%c", 0, 0, 8, type > file
      printf "%c%c%c%c", 0, 0, int(size / 256), size % 256 > file
    }
    # Whether a segment (s) is lit; the order is top, upper left, upper right,
    # middle, lower left, lower right, bottom.
    function lit(digit, s) { return substr(shapes[digit], s, 1) == "1" }
    # Whether the digit covers the pixel, which is relative to its corner.
    function ink(digit, x, y) {
      if (x < 0 || y < 0 || x >= width || y >= height) return 0
      if (y < 2) return lit(digit, 1) || corner(digit, x, 2, 3)
      if (y >= height - 2) return lit(digit, 7) || corner(digit, x, 5, 6)
      if (y >= half - 1 && y <= half && lit(digit, 4)) return 1
      return y < half ? corner(digit, x, 2, 3) : corner(digit, x, 5, 6)
    }
    function corner(digit, x, left, right) {
      if (x < 2) return lit(digit, left)
      return x >= width - 2 && lit(digit, right)
    }
    BEGIN {
      split("1110111 0010010 1011101 1011011 0111010 1101011 1101111 " \
            "1010010 1111111 1111011", ordered, " ")
      for (i = 1; i <= 10; ++i) shapes[i - 1] = ordered[i]
      header(images, 3, count)
      printf "%c%c%c%c%c%c%c%c", 0, 0, 0, 28, 0, 0, 0, 28 > images
      header(labels, 1, count)
      for (n = 0; n < count; ++n) {
        digit = draw(10)
        width = 9 + draw(6); height = 16 + draw(7); half = int(height / 2)
        left = 1 + draw(27 - width); top = 1 + draw(27 - height)
        bright = 120 + draw(136)
        printf "%c", digit > labels
        for (y = 0; y < 28; ++y)
          for (x = 0; x < 28; ++x)
            printf "%c", ink(digit, x - left, y - top) ? bright : draw(60) \
              > images
      }
    }'
}

mkdir -p "$1"
write_set 2000 1 "$1/train-images-idx3-ubyte" "$1/train-labels-idx1-ubyte"
write_set 500 2 "$1/t10k-images-idx3-ubyte" "$1/t10k-labels-idx1-ubyte"
