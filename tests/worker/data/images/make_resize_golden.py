"""Writes resize_golden.inc: pictures that Pillow has scaled.

Needs Pillow 12 or older: python3 make_resize_golden.py > resize_golden.inc
The picture is the one that MakePicture of picture_test_util.cc makes.
Pillow 13 scales columns before rows in some cases, which changes some pixels by
1.
"""

import zlib

from PIL import Image


def make_picture(height, width, channels, number):
    state = (number * 2654435761 + 1) % 2**32
    pixels = bytearray()
    for _ in range(height * width * channels):
        state = (state * 1664525 + 1013904223) % 2**32
        pixels.append(state >> 24)
    mode = "L" if channels == 1 else "RGB"
    return Image.frombytes(mode, (width, height), bytes(pixels))


def main():
    print("// Made by make_resize_golden.py: {height, width, channels, top, left,")
    print("// crop height, crop width, new height, new width, CRC-32 of pixels}.")
    cases = []
    for height, width in ((32, 32), (61, 47), (200, 311), (7, 500)):
        for channels in (1, 3):
            for new_height, new_width in ((32, 32), (24, 24), (64, 50),
                                          (5, 224), (224, 3)):
                cases.append((height, width, channels, 0, 0, height, width,
                              new_height, new_width))
                cases.append((height, width, channels, height // 3, width // 4,
                              height // 2, width // 2, new_height, new_width))
    for case in cases:
        height, width, channels, top, left, h, w, new_height, new_width = case
        picture = make_picture(height, width, channels, 5)
        cut = picture.crop((left, top, left + w, top + h))
        scaled = cut.resize((new_width, new_height), Image.Resampling.BILINEAR)
        numbers = ", ".join(str(number) for number in case)
        print("{%s, 0x%08xu}," % (numbers, zlib.crc32(scaled.tobytes())))


main()
