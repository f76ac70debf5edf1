/* The ptrace(2) of a kernel on a CPU with AMX: an XSAVE area has 11,008 bytes, and is set as a whole or not at all. */

enum { GETREGSET = 0x4204, SETREGSET = 0x4205, XSTATE = 0x202, AREA = 11008, EFAULT = 14 };

struct iovec {
	char *base;
	unsigned long bytes;
};

void *dlsym(void *handle, const char *name);
int *__errno_location(void);

long ptrace(int request, int pid, void *address, void *data)
{
	static long (*next)(int request, ...);
	struct iovec *area = data;
	unsigned long room;
	long result;

	if (!next)
		next = dlsym((void *)-1, "ptrace"); /* RTLD_NEXT */
	if (address != (void *)XSTATE || (request != GETREGSET && request != SETREGSET))
		return next(request, pid, address, data);
	if (request == SETREGSET && area->bytes < AREA) {
		*__errno_location() = EFAULT;
		return -1;
	}
	room = area->bytes < AREA ? area->bytes : AREA;
	result = next(request, pid, address, data);
	if (request == GETREGSET && result == 0)
		for (; area->bytes < room; area->bytes++)
			area->base[area->bytes] = 0;
	return result;
}
