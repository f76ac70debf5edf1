/* Completes the register state that User Mode Linux sets in its processes; preloaded where the CPU has AMX.
 *
 * There the kernel takes an XSAVE area as a whole (11,008 bytes) or not at all, and User Mode Linux hands over the 2,696
 * that it knows. Its registers, up to AVX-512, go over the process' own area, and the rest is zero: not in use.
 *
 * No header and no library: a compiler alone is enough. Sources: ptrace(2); Intel SDM volume 1, 13.4, "XSAVE area".
 */

enum { GETREGSET = 0x4204, SETREGSET = 0x4205, XSTATE = 0x202, XSTATE_BV = 512 / 8, KEPT = 0xff };

struct iovec {
	unsigned long *base;
	unsigned long bytes;
};

void *dlsym(void *handle, const char *name);

long ptrace(int request, int pid, void *address, void *data)
{
	static unsigned long area[8192]; /* User Mode Linux's stack is too short for it */
	static long (*next)(int request, ...);
	struct iovec *given = data, whole = {area, sizeof area};
	unsigned long word;

	if (!next)
		next = dlsym((void *)-1, "ptrace"); /* RTLD_NEXT */
	if (request != SETREGSET || address != (void *)XSTATE)
		return next(request, pid, address, data);
	if (next(GETREGSET, pid, address, &whole) < 0)
		return -1;
	for (word = 0; word < whole.bytes / 8; word++)
		area[word] = word < given->bytes / 8 ? given->base[word] : 0;
	area[XSTATE_BV] &= KEPT;
	return next(SETREGSET, pid, address, &whole);
}
