// SPDX-License-Identifier: GPL-2.0
/*
 * The stand-in's PCI driver: it is bound to the cards, and gives each the
 * lowest minor that is free, as the real driver does. A card can be left to
 * other drivers at load (parameter `unbound`) and be unbound and bound again
 * in sysfs.
 */

#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/pci.h>

#define CARDS 6 /* GPUS_MAX in pci.rs */
#define DOMAIN 1 /* as in pci.rs */

int loga_model_bind(void);
void loga_model_unbind(void);
int loga_model_minor_of(unsigned int card);

static unsigned int unbound;
module_param(unbound, uint, 0444);
MODULE_PARM_DESC(unbound, "cards that the driver leaves alone until it is bound to them in sysfs, one bit each");

/* Minor of each card, plus one; 0 for none. */
static int minors[CARDS];
static DEFINE_MUTEX(lock);
static bool loading;

static int card_of(const struct pci_dev *device)
{
	return PCI_SLOT(device->devfn);
}

static int probe(struct pci_dev *device, const struct pci_device_id *id)
{
	int card = card_of(device), minor, other;

	if (pci_domain_nr(device->bus) != DOMAIN || card >= CARDS || (loading && unbound & BIT(card)))
		return -ENODEV;
	mutex_lock(&lock);
	for (minor = 1; minor <= CARDS; minor++) {
		for (other = 0; other < CARDS && minors[other] != minor; other++)
			;
		if (other == CARDS)
			break;
	}
	WRITE_ONCE(minors[card], minor);
	mutex_unlock(&lock);
	return 0;
}

static void remove(struct pci_dev *device)
{
	mutex_lock(&lock);
	WRITE_ONCE(minors[card_of(device)], 0);
	mutex_unlock(&lock);
}

static const struct pci_device_id ids[] = {
	{ PCI_DEVICE(PCI_VENDOR_ID_NVIDIA, PCI_ANY_ID) },
	{ }
};

static struct pci_driver driver = {
	.name = "loga_model",
	.id_table = ids,
	.probe = probe,
	.remove = remove,
};

int loga_model_bind(void)
{
	int err;

	loading = true;
	err = pci_register_driver(&driver);
	loading = false;
	return err;
}

void loga_model_unbind(void)
{
	pci_unregister_driver(&driver);
}

/* N of /dev/nvidiaN; negative for a card that the driver is not bound to. */
int loga_model_minor_of(unsigned int card)
{
	return card < CARDS ? READ_ONCE(minors[card]) - 1 : -1;
}
