/* CRC-32 (IEEE 802.3, as in zlib), under a name that zlib does not use. */

#include <stddef.h>
#include <stdint.h>

/* Call once before the first checksum. */
void checksum_begin(void);

uint32_t checksum(const uint8_t *bytes, size_t size);
