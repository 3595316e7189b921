// SPDX-License-Identifier: GPL-2.0
/*
 * Finding the driver without a path, asking for its cards, and replacing members
 * of its operations.
 */
#include <linux/cred.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/module.h>
#include <linux/mount.h>
#include <linux/pci.h>
#include <linux/pseudo_fs.h>
#include <linux/static_call.h>
#include <linux/sysfs.h>
#include <linux/uaccess.h>

#include "../kernel/shim.h"

/* -------------------------------------------------------------- the node */

static int node_fs_init(struct fs_context *fc)
{
	return init_pseudo(fc, 0x4c6f4741) ? 0 : -ENOMEM;
}

/*
 * No owner: a file of it must not keep this module loaded. The last file is closed
 * with loga_close_node(), after which nothing of the file system is left.
 */
static struct file_system_type node_fs = {
	.name = "loga_node",
	.init_fs_context = node_fs_init,
	.kill_sb = kill_anon_super,
};

/*
 * Opens a character device through an inode of its own: this needs no node in any
 * file system, and no node can redirect it. An error pointer on failure; -ENXIO if
 * no module has the device.
 */
struct file *loga_open_node(uint major, uint minor)
{
	struct vfsmount *mnt = kern_mount(&node_fs);
	struct path path = { .mnt = mnt };
	struct file *file = ERR_PTR(-ENOMEM);
	struct inode *inode;

	if (IS_ERR(mnt))
		return ERR_CAST(mnt);
	inode = new_inode(mnt->mnt_sb);
	if (!inode)
		goto unmount;
	inode->i_ino = get_next_ino();
	init_special_inode(inode, S_IFCHR | 0600, MKDEV(major, minor));
	path.dentry = d_alloc_name(mnt->mnt_root, "node");
	if (!path.dentry) {
		iput(inode);
		goto unmount;
	}
	d_add(path.dentry, inode);
	file = dentry_open(&path, O_RDWR, current_cred());
	d_drop(path.dentry);
	dput(path.dentry);
unmount:
	/* The open file holds its own references. */
	kern_unmount(mnt);
	return file;
}

void loga_close_node(struct file *file)
{
	__fput_sync(file);
}

/* ------------------------------------------------------------- its cards */

/* NV_ESC_CARD_INFO. Source: driver 470, nvidia/nv.c and nv-ioctl.h. */
#define CARD_INFO 200
#define CARD_INFO_MAX 32

struct card_info {
	u8 valid;
	u32 domain;
	u8 bus;
	u8 slot;
	u8 function;
	u16 vendor_id;
	u16 device_id;
	u32 gpu_id;
	u16 interrupt_line;
	u64 reg_address;
	u64 reg_size;
	u64 fb_address;
	u64 fb_size;
	u32 minor;
	u8 dev_name[10];
};
static_assert(sizeof(struct card_info) == 72);
static_assert(offsetof(struct card_info, minor) == 56);

/*
 * Asks the driver for its cards, through its control file. The call needs user
 * memory: a page is mapped for it into the address space of the caller, an
 * administrator that attaches or loads a module. Returns the number of @cards
 * filled in, -ENXIO for a caller without an address space, or an errno.
 */
int loga_ask_cards(struct file *control, loga_ioctl_t ioctl, struct loga_card *cards, uint room)
{
	const size_t size = CARD_INFO_MAX * sizeof(struct card_info);
	struct card_info *info;
	unsigned long page;
	uint i, count = 0;
	long err;

	static_assert(CARD_INFO_MAX * sizeof(struct card_info) <= PAGE_SIZE);
	if (!current->mm)
		return -ENXIO;
	info = kzalloc(size, GFP_KERNEL);
	if (!info)
		return -ENOMEM;
	page = vm_mmap(NULL, 0, PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, 0);
	if (IS_ERR_VALUE(page)) {
		kfree(info);
		return (int)page;
	}
	err = ioctl(control, _IOC(_IOC_READ | _IOC_WRITE, 'F', CARD_INFO, size), page);
	if (!err && copy_from_user(info, (void __user *)page, size))
		err = -EFAULT;
	vm_munmap(page, PAGE_SIZE);
	for (i = 0; !err && i < CARD_INFO_MAX && count < room; i++) {
		if (info[i].valid != 1)
			continue;
		cards[count].domain = info[i].domain;
		cards[count].bus = info[i].bus;
		cards[count].slot = info[i].slot;
		cards[count].bar0 = info[i].reg_address;
		cards[count].minor = info[i].minor;
		count++;
	}
	kfree(info);
	return err ? (int)err : (int)count;
}

/* ---------------------------------------------------------- other modules */

/* Is @addr in the writable, permanent data of @mod? */
bool loga_in_module_data(const struct module *mod, const void *addr)
{
	return within_module_mem_type((unsigned long)addr, mod, MOD_DATA);
}

/* Is @addr in the text of @mod? */
bool loga_in_module_text(const struct module *mod, const void *addr)
{
	return within_module_mem_type((unsigned long)addr, mod, MOD_TEXT);
}

/* Is @mod initialised, and not being unloaded? */
bool loga_module_is_live(const struct module *mod)
{
	return mod->state == MODULE_STATE_LIVE;
}

const char *loga_module_name(const struct module *mod)
{
	return mod->name;
}

/* NULL if the module names no version. */
const char *loga_module_version(const struct module *mod)
{
	return mod->version;
}

/*
 * Names this module in /sys/module/<driver>/holders, where lsmod and rmmod find
 * who keeps the driver in use. The kernel does so for modules that import symbols.
 */
void loga_hold(const struct module *driver)
{
	/* Without the link the driver is in use as before. */
	if (driver && driver->holders_dir &&
	    sysfs_create_link(driver->holders_dir, &THIS_MODULE->mkobj.kobj, THIS_MODULE->name))
		pr_debug("loga: no link in the holders of %s\n", driver->name);
}

void loga_unhold(const struct module *driver)
{
	if (driver && driver->holders_dir)
		sysfs_remove_link(driver->holders_dir, THIS_MODULE->name);
}

/*
 * Replaces a member of operations in use, if it still is @old. The exchange is
 * atomic and fully ordered: a reader of @new sees all earlier stores.
 */
bool loga_exchange_pointer(void **slot, void *old, void *new)
{
	return cmpxchg(slot, old, new) == old;
}

/*
 * A kernel function that does nothing, for a member that must not become NULL
 * again: its reader (fs/proc/fd.c) tests the member and may load it a second time
 * to call it. NULL if there is none of the right kind.
 */
void *loga_does_nothing(void)
{
#if defined(CONFIG_HAVE_STATIC_CALL) && !defined(CONFIG_CFI) && !defined(CONFIG_CFI_CLANG)
	return &__static_call_return0;
#else
	return NULL;
#endif
}

/* Waits until no task can be preempted inside hooked code any more. */
void loga_synchronize_rcu_tasks(void)
{
	synchronize_rcu_tasks();
}

/* Sleeps for @ms; true if the caller has a fatal signal. */
bool loga_sleep_killable(uint ms)
{
	schedule_timeout_killable(msecs_to_jiffies(ms));
	return fatal_signal_pending(current);
}

/* ---------------------------------------------------------------- devices */

/* The module whose driver the device is bound to. The device must be locked. */
const struct module *loga_driver_of(const struct pci_dev *device)
{
	return device->dev.driver ? device->dev.driver->owner : NULL;
}

void loga_device_lock(struct pci_dev *device)
{
	device_lock(&device->dev);
}

void loga_device_unlock(struct pci_dev *device)
{
	device_unlock(&device->dev);
}

u32 loga_pci_domain(const struct pci_dev *device)
{
	return pci_domain_nr(device->bus);
}
